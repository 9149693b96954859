// Ask again and again, but only while somebody looks.

/**
 * Call `ask()` now and then `interval()` seconds after each answer, one at a time, until stopped.
 * While `visible()` is false nothing is asked; `wake()` asks at once, for example when the page
 * becomes visible again or when something has just changed.
 */
export function createPoll({ ask, interval, visible, timers = globalThis }) {
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
