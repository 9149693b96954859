// The server's phrases: Chinese for each key that headroom/ sends, and what a page makes of them.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { reportText, saidText } from "../../js/lib/said.js";
import { SAID_ZH } from "../../js/lib/said_words.js";
import { wordsFor } from "../../js/lib/words.js";

const [EN, ZH] = [wordsFor("en"), wordsFor("zh")];
const folder = new URL("../../headroom/", import.meta.url);
const source = readdirSync(folder, { recursive: true })
  .filter((name) => String(name).endsWith(".py"))
  .map((name) => readFileSync(new URL(String(name), folder), "utf8"))
  .join("\n");
const table = JSON.parse(readFileSync(new URL("base/errors.json", folder), "utf8"));
const explained = [
  ...table.errors.flatMap(({ id }) => [`error_${id}`, `retry_${id}`]), ...Object.keys(table.do).map((id) => `help_${id}`),
];

test("every phrase of the server has Chinese words, and no words are left over", () => {
  const sent = [...source.matchAll(/(?:said|_sentence)\(\s*"([a-z_]+)"/g), ...source.matchAll(/: "((?:figure|run|node)_[a-z]+)"/g)]
    .map((found) => found[1]);
  assert.ok(sent.length > 60);
  for (const key of [...sent, ...explained]) assert.ok(SAID_ZH[key], key);
  for (const key of Object.keys(SAID_ZH)) {
    assert.ok(source.includes(`"${key.replace(/^advice_/, "")}"`) || key.startsWith("doing_vae_") || explained.includes(key), key);
  }
  const advised = readFileSync(new URL("advise/words.py", folder), "utf8").split("SENTENCES = {")[1].split("\n}")[0];
  const keys = [...advised.matchAll(/^ {4}"([a-z0-9_]+)":/gm)].map((found) => found[1]);
  assert.ok(keys.length > 8);
  for (const key of keys) assert.ok(SAID_ZH[`advice_${key}`], key);
});

test("an English page shows the server's own words", () => {
  assert.equal(saidText({ key: "guard_tidied", values: {} }, "returned cached and dead memory", EN), "returned cached and dead memory");
});

test("phrases in phrases, and several joined, are said in Chinese", () => {
  const done = { key: "joined", values: { joint: "and", parts: [
    { key: "guard_unloaded", values: { count: 2 } }, { key: "guard_offloaded", values: { freed_mib: 1536 } },
  ] } };
  assert.equal(saidText(done, "…", ZH), "卸载了其他 2 个模型，并把自身 1.5 GiB 的权重移出 GPU");
  const tried = { key: "gave_up_tried", values: { tried: { key: "tried_once", values: { action: done, times: 1, freed_mib: 10 } } } };
  assert.equal(saidText(tried, "…", ZH), "已尝试：卸载了其他 2 个模型，并把自身 1.5 GiB 的权重移出 GPU：释放 10 MiB。");
});

test("a phrase that has no words here stays English, as do names", () => {
  assert.equal(saidText({ key: "from a newer server", values: {} }, "As it was.", ZH), "As it was.");
  assert.equal(saidText(undefined, "As it was.", ZH), "As it was.");
  assert.equal(saidText({ text: "As it was." }, "As it was.", ZH), "As it was.");
});

test("a report is told with its figures", () => {
  const report = {
    headline: "2,048.0 MiB of VRAM freed", text: "English", steps: ["models: nothing was loaded"],
    said: { headline: { key: "freed", values: { freed_mib: 2048 } }, steps: [{ key: "purge_none_loaded", values: {} }] },
    figures: [
      { device: "cuda:0 (A)", name: "driver free", before_mib: 100, after_mib: 2148 },
      { device: null, name: "process RSS", before_mib: 500, after_mib: 400 },
    ],
  };
  assert.deepEqual(reportText(report, EN), { headline: report.headline, text: "English" });
  assert.equal(reportText(report, ZH).headline, "释放了 2 GiB 显存");
  assert.equal(reportText(report, ZH).text, [
    "释放了 2 GiB 显存", "- 模型：没有已加载的模型", "", "cuda:0 (A)", "  驱动空闲  100 MiB → 2.1 GiB", "内存", "  本进程内存  500 MiB → 400 MiB",
  ].join("\n"));
});
