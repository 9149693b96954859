// The first word on whether the open workflow fits this card, before it runs.
import { h } from "./dom.js";
import { dayAndTime } from "./format.js";

const FIT_PAGE = "https://github.com/headroom-nodes/headroom/blob/main/docs/fit.md";

/**
 * The button that asks, and what came back the last time.
 * @param {PanelState["estimate"]} estimate
 * @param {string | null} reason why nothing can be asked now
 * @param {Say} t
 * @param {() => void} onAsk
 */
export function estimateView(estimate, reason, t, onAsk) {
  const button = h("button.headroom-button", {
    type: "button", "data-focus": "estimate", disabled: Boolean(reason), onclick: onAsk,
    title: reason ?? t("An estimate for the open workflow, before it runs: from the headers of its model files and from earlier runs"),
  }, t("Will it fit this card?"));
  if (!estimate) return [button];
  const [verdict, ...lines] = estimate.lines.map((line) => t.said(line.said, line.text));
  return [
    button,
    h("div.headroom-card.headroom-estimate", { "data-verdict": estimate.verdict, role: "status" },
      h("p", {}, h("b", {}, verdict)),
      lines.map((line) => h("p", {}, line)),
      h("small", {}, t("An estimate for the workflow as it was at {time}. The thorough one is headroom-fit, which runs the workflow without a card:", { time: dayAndTime(estimate.at) }), " ",
        h("a", { href: FIT_PAGE, target: "_blank", rel: "noopener" }, t("how to get it")))),
  ];
}
