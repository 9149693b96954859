// Texts in both languages, and a run as GET /headroom/runs/{prompt_id} gives it, with only what a test cares about.
import { readFileSync } from "node:fs";
import { speakers } from "../../js/lib/say.js";

const main = (language) => JSON.parse(readFileSync(new URL(`../../locales/${language}/main.json`, import.meta.url), "utf8"));
export const I18N = { en: main("en"), zh: main("zh") };
export const [EN, ZH] = Object.keys(I18N).map(speakers(I18N));

/** A phrase as the server sends it. */
export const said = (template, values = {}) => ({ template, values });

export function node(id, fields = {}) {
  return {
    node_id: id, display_node_id: id, parent_node_id: null, class_type: "KSampler", title: "KSampler",
    status: "done", start_seconds: 0, seconds: 1, spans: [[0, 1]], cached: false,
    vram_before_mib: 100, vram_after_mib: 200, peak_vram_mib: 300, rss_before_mib: 10, rss_after_mib: 20,
    ...fields,
  };
}

export function cachedNode(id, fields = {}) {
  return node(id, {
    status: "cached", start_seconds: null, seconds: 0, spans: [], cached: true, vram_before_mib: null,
    vram_after_mib: null, peak_vram_mib: null, rss_before_mib: null, rss_after_mib: null, ...fields,
  });
}

export function run(nodes, fields = {}) {
  return {
    prompt_id: "p1", status: "success", device: "cuda:0", started_at: 1763722100, seconds: 10,
    peak_vram_mib: 300, peak_rss_mib: 20, vram_total_mib: 1024, vram_source: "driver", nodes,
    nodes_left_out: 0, oom: [], actions: [],
    samples: { seconds: [0, 5, 10], vram_mib: [100, 300, 200], rss_mib: [10, 20, 20] }, ...fields,
  };
}
