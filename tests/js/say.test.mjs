// What the page says in each language, and what it makes of the server's phrases.
import assert from "node:assert/strict";
import { test } from "node:test";
import { reportText, speakers, wordsOf } from "../../js/lib/say.js";
import { EN, I18N, said, ZH } from "./fixtures.mjs";

const TIDIED = "returned cached and unused memory";

test("a regional locale speaks its language, an unknown one and a missing translation English", () => {
  const speakerOf = speakers(I18N);
  assert.equal(speakerOf("zh-TW")("Free"), "空闲");
  for (const locale of ["ja", "en", undefined]) assert.equal(speakerOf(locale)("Free"), "Free");
  assert.equal(speakers({})("zh")("Free"), "Free");
  assert.equal(speakerOf("zh"), speakerOf("zh"), "one speaker, by which a change of the language is seen");
});

test("nodes, settings and commands have the words of the same language as the panel", () => {
  for (const locale of ["zh", "zh-TW"]) assert.equal(wordsOf(I18N, locale), I18N.zh);
  for (const locale of ["ja", "en", "undefined"]) assert.equal(wordsOf(I18N, locale), null);
});

test("values that are missing stay visible", () => {
  assert.equal(EN("{a} of {b}", { a: 0 }), "0 of {b}");
});

test("the server's phrases have their amounts as the page writes them, in English too", () => {
  assert.equal(EN.said(said("{kept_mib} free", { kept_mib: 1536 }), "1,536.0 MiB free"), "1.5 GiB free");
  assert.equal(EN.said(null, "As it was."), "As it was.");
  assert.equal(ZH.said(said(TIDIED), "As it was."), "归还了缓存和无用的显存");
});

test("phrases in phrases, and several joined, are said in Chinese", () => {
  const done = said(" and ", [
    said("unloaded {count} other models", { count: 2 }), said("offloaded {freed_mib} of its own weights", { freed_mib: 1536 }),
  ]);
  assert.equal(ZH.said(done, "…"), "卸载了其他 2 个模型，并把自身 1.5 GiB 的权重移出 GPU");
  const tried = said("Tried: {tried}.", { tried: said("{action}: {freed_mib} freed", { action: done, freed_mib: 10 }) });
  assert.equal(ZH.said(tried, "…"), "已尝试：卸载了其他 2 个模型，并把自身 1.5 GiB 的权重移出 GPU：释放 10 MiB。");
});

test("what has no translation is English, and names stay as they are", () => {
  assert.equal(ZH.said(said("From a newer server: {what}.", { what: said("Free") }), "…"), "From a newer server: 空闲.");
  assert.equal(ZH.said(undefined, "As it was."), "As it was.");
  assert.equal(ZH.said("A name", "As it was."), "A name");
});

test("a report is told with its figures", () => {
  const report = {
    headline: "2,048.0 MiB of VRAM freed", text: "English", steps: ["models: nothing was loaded"],
    said: { headline: said("{freed_mib} of VRAM freed", { freed_mib: 2048 }), steps: [said("models: nothing was loaded")] },
    figures: [
      { device: "cuda:0 (A)", name: "driver free", before_mib: 100, after_mib: 2148 },
      { device: null, name: "process RSS", before_mib: 500, after_mib: 400 },
      { device: null, name: "torch reserved", before_mib: null, after_mib: 0 },
    ],
  };
  assert.equal(reportText(report, EN).text, [
    "2 GiB of VRAM freed", "- models: nothing was loaded", "", "cuda:0 (A)", "  driver free  100.0 → 2,148.0 MiB", "RAM", "  process RSS  500.0 → 400.0 MiB",
    "  torch reserved  –",
  ].join("\n"));
  assert.equal(reportText(report, ZH).headline, "释放了 2 GiB 显存");
  assert.equal(reportText(report, ZH).text, [
    "释放了 2 GiB 显存", "- 模型：没有已加载的模型", "", "cuda:0 (A)", "  驱动空闲  100.0 → 2,148.0 MiB", "内存", "  本进程内存  500.0 → 400.0 MiB", "  torch 已保留  –",
  ].join("\n"));
});
