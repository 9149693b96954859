// The routes of the server. `fetchApi` is the frontend's own: it knows the base path and the user.

/** A server that was stopped in the middle of an answer never ends it. */
const LONGEST_MS = 30_000;

/** What the server said when it refused: in English, and with `said` for other languages. */
export class Refused extends Error {
  constructor(status, sentence, said) {
    super(sentence);
    this.status = status;
    this.said = said;
  }
}

/** Nothing came back, or nothing of the server's: it is down, or something on the way to it. */
class NoAnswer extends Error {}

/** The words of whatever was thrown. */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Why something was not done, in the language of `t`; an error of this page is thrown on.
 * @param {Say} t
 */
export function reasonText(error, t) {
  if (error instanceof Refused) return t.said(error.said, error.message);
  if (!(error instanceof NoAnswer)) throw error;
  return t("The server does not answer: {error}", { error: error.message });
}

export function createHttp(fetchApi) {
  async function reached(path, options) {
    try {
      const signal = options ? undefined : AbortSignal.timeout(LONGEST_MS); // what acts may take long
      return await fetchApi(path, { cache: "no-store", signal, ...options });
    } catch (error) {
      throw new NoAnswer(messageOf(error));
    }
  }

  async function answer(path, options) {
    const response = await reached(path, options);
    const body = await response.json().catch(() => null);
    if (!response.ok && body?.error) throw new Refused(response.status, body.error, body.said);
    // A page to log in, an answer that was cut off, or a server that was not started again after an update.
    if (!response.ok || body === null) throw new NoAnswer(`${path}: ${response.status}`);
    return body;
  }
  const post = (path, body) =>
    answer(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  return {
    memory: () => answer("/headroom/memory"),
    runs: async (limit) => (await answer(`/headroom/runs?limit=${limit}&nodes=0`)).runs,
    run: (promptId) => answer(`/headroom/runs/${encodeURIComponent(promptId)}`),
    advice(promptId, intoGib = null) {
      const into = intoGib === null ? "" : `?into_gib=${intoGib}`;
      return answer(`/headroom/runs/${encodeURIComponent(promptId)}/advice${into}`);
    },
    purge: (body = {}) => post("/headroom/purge", body),
    rescue: (promptId) => post("/headroom/rescue", { prompt_id: promptId }),
    limit: (size) => post("/headroom/limit", { limit: size }),
    estimate: (prompt) => post("/headroom/estimate", { prompt }),
    reserve: (amount) => post("/headroom/reserve", { mib: amount }),
    resetPeaks: () => post("/headroom/peaks", {}),
    bugReport: () => answer("/headroom/bug-report"),
    leftQueue: () => answer("/headroom/queue"),
    decideQueue: (action) => post("/headroom/queue", { action }),
    offload: (model) => post("/headroom/offload", { model }),
  };
}

/** The record of a run that has just ended: the recorder may need a moment to close it. */
export async function finishedRun(http, promptId, wait, tries = 20) {
  for (let left = tries; left > 1; left -= 1) {
    const run = await http.run(promptId);
    if (run.status !== "running") return run;
    await wait(100);
  }
  return http.run(promptId);
}
