// A bug report as a file: what the server tells, and what only the page knows.
import { h } from "./dom.js";

const FILE = "headroom-bug-report.json";

/**
 * Let the user save `report`, the server's, with `browser` in it.
 * @param {object} report
 * @param {{ frontend: string, settings: object }} browser
 */
export function saveReport(report, browser) {
  const { userAgent, language } = navigator;
  const text = JSON.stringify({ ...report, browser: { ...browser, userAgent, language } }, null, 2);
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href, download: FILE }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000); // a browser may begin to read later
}
