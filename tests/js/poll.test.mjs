import assert from "node:assert/strict";
import { test } from "node:test";
import { createPoll } from "../../js/lib/poll.js";

/** Timers that only move when a test says so. */
function manualTimers() {
  const waiting = new Map();
  let last = 0;
  return {
    setTimeout: (call, delay) => waiting.set((last += 1), { call, delay }) && last,
    clearTimeout: (id) => waiting.delete(id),
    delays: () => [...waiting.values()].map((each) => each.delay),
    fire: () => {
      const [[id, { call }]] = waiting;
      waiting.delete(id);
      return call();
    },
  };
}

function counted(overrides = {}) {
  const timers = manualTimers();
  const state = { asked: 0, visible: true };
  const poll = createPoll({
    ask: async () => { state.asked += 1; },
    interval: () => 2,
    visible: () => state.visible,
    timers,
    ...overrides,
  });
  return { timers, state, poll };
}

test("nothing is asked before it is started", () => {
  const { state, timers } = counted();
  assert.equal(state.asked, 0);
  assert.deepEqual(timers.delays(), []);
});

test("it asks at once and then the interval after each answer", async () => {
  const { poll, state, timers } = counted();
  await poll.start();
  assert.equal(state.asked, 1);
  assert.deepEqual(timers.delays(), [2000]);
  await timers.fire();
  assert.equal(state.asked, 2);
});

test("after stop nothing is asked and nothing waits", async () => {
  const { poll, state, timers } = counted();
  await poll.start();
  poll.stop();
  assert.deepEqual(timers.delays(), []);
  await poll.wake();
  assert.equal(state.asked, 1);
});

test("a page that nobody sees asks nothing, and asks again when it is seen", async () => {
  const { poll, state, timers } = counted();
  state.visible = false;
  await poll.start();
  assert.equal(state.asked, 0);
  assert.deepEqual(timers.delays(), []);
  state.visible = true;
  await poll.wake();
  assert.equal(state.asked, 1);
  assert.deepEqual(timers.delays(), [2000]);
});

test("questions never overlap: one asked meanwhile follows at once", async () => {
  let answer;
  let asked = 0;
  const { poll, timers } = counted({
    ask: () => {
      asked += 1;
      return new Promise((done) => { answer = done; });
    },
  });
  const first = poll.start();
  poll.wake();
  poll.wake();
  assert.equal(asked, 1);
  answer();
  await first;
  assert.deepEqual(timers.delays(), [0]);
});

test("a stop during a question leaves nothing waiting", async () => {
  let answer;
  const { poll, timers } = counted({ ask: () => new Promise((done) => { answer = done; }) });
  const first = poll.start();
  poll.stop();
  answer();
  await first;
  assert.deepEqual(timers.delays(), []);
});

test("a question that fails, or whose answer cannot be drawn, is told and is not the last one", async () => {
  const told = [];
  let asked = 0;
  const { poll, timers } = counted({
    ask: async () => {
      asked += 1;
      throw new TypeError("drawing failed");
    },
    onError: (error) => told.push(error.message),
  });
  await poll.start();
  assert.deepEqual(timers.delays(), [2000]);
  await timers.fire();
  assert.equal(asked, 2);
  await poll.wake();
  assert.deepEqual([asked, timers.delays()], [3, [2000]]);
  assert.deepEqual(told, ["drawing failed", "drawing failed", "drawing failed"]);
});
