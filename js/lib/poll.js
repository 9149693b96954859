// Ask again and again, but only while somebody looks.

/** What a page does with an error that nobody waits for: its console shows it. */
const report = (error) => console.error("[Headroom]", error);

/**
 * Call `ask()` now and then `interval()` seconds after each answer, one at a time, until stopped.
 * While `visible()` is false nothing is asked; `wake()` asks at once, for example when the page
 * becomes visible again or when something has just changed. One that fails is told to `onError`
 * and asked again like any other.
 */
export function createPoll({ ask, interval, visible, timers = globalThis, onError = report }) {
  let timer = null;
  let running = false;
  let asking = false;
  let again = false;

  async function turn() {
    timer = null;
    if (!running || asking) {
      again = running;
      return;
    }
    if (visible()) {
      asking = true;
      try {
        await ask();
      } catch (error) {
        onError(error);
      } finally {
        asking = false;
      }
    }
    if (!running) return;
    const delay = again ? 0 : interval() * 1000;
    again = false;
    if (visible()) timer = timers.setTimeout(turn, delay);
  }

  function wake() {
    if (!running) return undefined;
    if (timer !== null) timers.clearTimeout(timer);
    return turn();
  }

  return {
    start() {
      if (running) return undefined;
      running = true;
      return turn();
    },
    stop() {
      running = false;
      again = false;
      if (timer !== null) timers.clearTimeout(timer);
      timer = null;
    },
    wake,
  };
}
