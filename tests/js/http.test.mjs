import assert from "node:assert/strict";
import { test } from "node:test";
import { createHttp, finishedRun, reasonText, Refused } from "../../js/lib/http.js";
import { EN, said, ZH } from "./fixtures.mjs";

function server(answers) {
  const asked = [];
  const http = createHttp(async (path, options) => {
    asked.push([options.method ?? "GET", path, options.body]);
    const { status = 200, body } = answers.shift();
    return { ok: status < 400, status, json: async () => (body === undefined ? JSON.parse("<") : body) };
  });
  return { http, asked };
}

test("routes and bodies are those of the contract", async () => {
  const { http, asked } = server([{ body: {} }, { body: { runs: [1] } }, { body: {} }, { body: {} }, { body: {} }]);
  await http.memory();
  assert.deepEqual(await http.runs(5), [1]);
  await http.run("a/b");
  await http.purge();
  await http.offload("m3");
  assert.deepEqual(asked, [
    ["GET", "/headroom/memory", undefined],
    ["GET", "/headroom/runs?limit=5&nodes=0", undefined],
    ["GET", "/headroom/runs/a%2Fb", undefined],
    ["POST", "/headroom/purge", "{}"],
    ["POST", "/headroom/offload", '{"model":"m3"}'],
  ]);
});

test("a refusal carries the server's sentence and status", async () => {
  const { http } = server([{ status: 409, body: { error: "A prompt is running." } }]);
  await assert.rejects(http.purge(), (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.status, error.message], [409, "A prompt is running."]);
    return true;
  });
});

test("a page in the place of an answer, half an answer, or a route that is not there counts as none and is told by its status", async () => {
  for (const status of [200, 404, 502]) {
    const { http } = server([{ status }]);
    const error = await http.leftQueue().catch((thrown) => thrown);
    assert.equal(reasonText(error, EN), `The server does not answer: /headroom/queue: ${status}`);
  }
});

test("a run that is being closed is asked for again until it has ended", async () => {
  const statuses = ["running", "running", "success"];
  const waits = [];
  const http = { run: async () => ({ status: statuses.shift() }) };
  const run = await finishedRun(http, "p", async (ms) => waits.push(ms));
  assert.equal(run.status, "success");
  assert.deepEqual(waits, [100, 100]);
});

test("a run that does not end is given as far as it is known", async () => {
  const http = { run: async () => ({ status: "running" }) };
  assert.equal((await finishedRun(http, "p", async () => {}, 3)).status, "running");
});

test("why something was not done is told in the user's language", async () => {
  const { http } = server([{ status: 409, body: { error: "Not done.", said: said("It could not be done ({detail}); the server's log says more.", { detail: "OSError" }) } }]);
  const refused = await http.purge().catch((error) => error);
  assert.match(reasonText(refused, EN), /^It could not be done \(OSError\);/);
  assert.match(reasonText(refused, ZH), /^无法完成（OSError）/);
  assert.equal(reasonText(new Refused(409, "From an older server."), ZH), "From an older server.");
});

test("only what the server or the way to it did is told as such: an error of the page is thrown on", async () => {
  const down = createHttp(async () => { throw new TypeError("Failed to fetch"); });
  const silent = await down.memory().catch((error) => error);
  assert.equal(reasonText(silent, ZH), "服务器没有回应：Failed to fetch");
  assert.throws(() => reasonText(new TypeError("Cannot read properties of null"), EN), TypeError);
});

test("a question that the server never answers is given up, and an action is not", async ({ mock }) => {
  const late = new AbortController();
  mock.method(AbortSignal, "timeout", () => late.signal);
  const http = createHttp((_, { signal, method }) => new Promise((done, fail) => {
    if (method) done({ ok: true, status: 200, json: async () => ({ signal }) });
    else signal.addEventListener("abort", () => fail(signal.reason));
  }));
  const asked = http.memory();
  late.abort(new Error("it took too long"));
  await assert.rejects(asked, (error) => reasonText(error, EN) === "The server does not answer: it took too long");
  assert.equal((await http.resetPeaks()).signal, undefined);
});
