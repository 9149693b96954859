// What js/ registers and what tests/contract.json promises has words in every language.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { settings } from "../../js/lib/settings.js";

const at = (path) => new URL(`../../${path}`, import.meta.url);
const json = (path) => JSON.parse(readFileSync(at(path), "utf8"));
const contract = json("tests/contract.json");
const source = readFileSync(at("js/headroom.js"), "utf8");
const key = (id) => id.replaceAll(".", "_");

test("English words are in the code alone: older frontends would show them for Chinese, and a copy grows old", () => {
  for (const name of ["settings", "commands", "nodeDefs"]) assert.ok(!existsSync(at(`locales/en/${name}.json`)), name);
});

/** A setting's name in the table of settings: without what a colon or bracket adds, but for the starting values. */
const stem = (id, name) => (id.startsWith("Headroom.Defaults.") ? name : name.split(/ \(|: |, |（|：|，/)[0]);

test("the table of settings names every setting in both languages", () => {
  const words = json("locales/zh/settings.json");
  const pages = ["settings.md", "settings.zh-CN.md"].map((page) => readFileSync(at(`docs/${page}`), "utf8"));
  for (const { id, name } of settings(() => {})) {
    assert.ok(pages[0].includes(stem(id, name)), name);
    assert.ok(pages[1].includes(stem(id, words[key(id)].name)), words[key(id)].name);
  }
});

/** The lines between fences of a page. */
const blocks = (page) => page.split("```").filter((_, part) => part % 2).flatMap((block) => block.trim().split("\n"));
/** Columns of a line: Chinese characters take two. */
const columns = (line) => [...line].reduce((sum, letter) => sum + (/[\u2e80-\uffef]/.test(letter) ? 2 : 1), 0);

const languages = readdirSync(at("locales"));
for (const language of languages.filter((each) => each !== "en")) {
  test(`every setting has words in ${language}, its choices included`, () => {
    const words = json(`locales/${language}/settings.json`);
    const defined = settings(() => {});
    assert.deepEqual(Object.keys(words).sort(), defined.map((each) => key(each.id)).sort());
    for (const setting of defined.filter((each) => each.options)) {
      assert.deepEqual(Object.keys(words[key(setting.id)].options), setting.options.map((one) => one.value ?? one));
    }
  });

  test(`every command has words in ${language}`, () => {
    const ids = [...source.matchAll(/= "(Headroom\.\w+)"/g)].map((found) => key(found[1]));
    assert.deepEqual(Object.keys(json(`locales/${language}/commands.json`)).sort(), ids.sort());
  });

  test(`every node, input and output has words in ${language}`, () => {
    const words = json(`locales/${language}/nodeDefs.json`);
    assert.deepEqual(Object.keys(words).sort(), Object.keys(contract).sort());
    for (const [id, node] of Object.entries(contract)) {
      const inputs = Object.entries(words[id].inputs);
      const outputs = Object.values(words[id].outputs);
      assert.deepEqual(inputs.map(([name]) => name).sort(), Object.keys(node.inputs).sort(), id);
      assert.equal(outputs.length, node.outputs.length, id);
      assert.ok(words[id].display_name && words[id].description, id);
      for (const one of [...inputs.map(([, input]) => input), ...outputs]) {
        assert.ok(one.name && one.tooltip, `${id}: ${one.name}`);
      }
    }
  });
}

for (const language of languages) {
  test(`every group of settings has a name in ${language}`, () => {
    const named = json(`locales/${language}/main.json`).settingsCategories;
    for (const { category } of settings(() => {})) {
      assert.ok(named[category[0]] && named[category[1]], category.join("/"));
    }
  });
}

for (const id of Object.keys(contract)) {
  test(`${id} has a help page in both languages that names every input`, () => {
    for (const path of [`js/docs/${id}.md`, `js/docs/${id}/zh.md`]) {
      assert.ok(existsSync(at(path)), path);
      const page = readFileSync(at(path), "utf8");
      for (const name of Object.keys(contract[id].inputs)) {
        assert.ok(page.includes(`\`${name}\``), `${path} does not mention ${name}`);
      }
      assert.equal(page.match(/^## /gm).length, 4, path);
      assert.ok(page.includes("```"), `${path} shows no diagram`);
      assert.ok(!/^\|.*\|.*\|.*\|$/m.test(page), `${path} has a table of three columns`);
      for (const line of blocks(page)) assert.ok(columns(line) <= 26, `${path}: ${line}`);
    }
  });

  test(`${id} has its English page where the frontend looks first, and for other languages`, () => {
    const [page, fallback] = [`js/docs/${id}/en.md`, `js/docs/${id}.md`].map((path) => readFileSync(at(path), "utf8"));
    assert.equal(page, fallback);
  });
}
