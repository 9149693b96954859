// What the server of the pack answers, as far as the page reads it, and what its modules share.
// `any` where the page only passes on what it got.

type Said = string | { template: string; values: any };

interface RunNode {
  node_id: string; display_node_id?: string | null; class_type: string; title?: string | null;
  status: string; cached: boolean; seconds: number | null; spans: [number, number | null][];
  growth_mib?: number | null; vram_before_mib: number | null; vram_after_mib: number | null;
  peak_vram_mib: number | null; peak_vram_at_most_mib?: number | null;
  rss_before_mib: number | null; rss_after_mib: number | null; devices?: any[];
}

interface Failure { can_rescue: boolean; stopped?: boolean; text: string; said?: Said | null }

interface Run {
  prompt_id: string; status: string; device: string | null; started_at: number; seconds: number;
  peak_vram_mib: number | null; peak_vram_at_most_mib?: number | null; peak_rss_mib: number | null;
  vram_total_mib: number | null; vram_source: string; nodes: RunNode[]; nodes_left_out?: number;
  left_out?: { display_node_id: string; title: string; count: number }[];
  grows?: { what: string; mib_a_turn: number; turns: number; display_node_id: string; title: string }[];
  samples?: { seconds: number[]; vram_mib: (number | null)[]; rss_mib: (number | null)[]; devices?: any };
  oom?: any[]; slower?: { node_id: string; text: string; said: any }[];
  spilled?: { node_id: string; text: string; said: any }[]; actions?: any[]; gave_up?: any[]; devices?: any[];
  workflow_id?: string | null; failure?: Failure | null; rescued_from?: string | null; rescued_as?: string | null;
  ram_low?: { least_left_mib: number; total_mib: number } | null; ram_held?: any;
  fits?: { kind: string; smallest_mib: [number, number]; at_least?: boolean; cards_gib?: number[] } | null;
}

interface Memory {
  busy: boolean; reserve_mib?: number | null;
  limit?: { limit: string | null; not_limited: { text: string; said: any }[] };
  devices: any[]; ram: any; models: any[]; lost?: { text: string; said: any }[];
  stuck?: { text: string; said: any } | null; foreign?: { pack: string | null; classes: string[]; mib: number }[];
  ram_held?: any; grows_over_runs?: { display_node_id: string | null; title: string | null; holder: string | null; mib_a_run: number; runs: number }[];
  peaks?: { since: number; devices: Record<string, number>; rss_mib: number | null } | null;
}

interface Report { headline: string; text: string; steps: string[]; figures: any[]; said: any }

interface Advice {
  id: string; kind: string; text: string; said?: Said | null; values: any; saves_mib: [number, number]; node_ids?: string[];
  changes_picture: boolean; cost?: string | null; edit?: any; measured_mib?: { mib: number } | null;
  expected_mib?: [number, number]; said?: Said | null;
}

interface Sorting { key: string; descending: boolean }

/** What the panel knows. */
interface PanelState {
  memory: Memory | null; runs: Run[]; run: Run | null; advice: { of: string | null; items: Advice[] };
  estimate: { verdict: string; lines: { text: string; said: any }[]; at: number } | null;
  chosen: string | null; sort: Sorting | null; trouble: string | null; report: Report | null;
}

/** Texts in one language: see js/lib/say.js. */
interface Say { (template: string, values?: Record<string, any>): string; said(data: any, english: string): string }

/** What the buttons of the panel do. */
interface Actions {
  pickNode(node: RunNode): void; rescue(promptId: string): Promise<boolean>;
  apply(items: Advice[], run: Run): void; plan(run: Run, gib: number): Promise<Advice[] | null>;
  choose(promptId: string): void; sortBy(key: string): void; offload(model: any): void;
  reserve(mib: number): void; limit(size: string): void; resetPeaks(): void; purge(): Promise<void>;
  saveBugReport(): void; estimate(): void;
}

/** What the parts of a run are drawn with. */
interface Drawing { t: Say; width: number; actions: Actions }
