// Older frontends forget a pack's translations when they load a language other than English.

/** Put names and tooltips in the user's language into node definitions; unknown ones stay. */
export function translateNodes(defs, words) {
  for (const [id, said] of Object.entries(words?.nodeDefs ?? {})) {
    if (id.startsWith("Headroom") && defs[id]) translateNode(defs[id], said);
  }
}

function translateNode(def, said) {
  def.display_name = said.display_name ?? def.display_name;
  def.description = said.description ?? def.description;
  for (const group of Object.values(def.input ?? {})) {
    for (const [name, [, options]] of Object.entries(group)) {
      const tooltip = said.inputs?.[name]?.tooltip;
      if (options && tooltip) options.tooltip = tooltip;
    }
  }
  def.output_tooltips = (def.output_tooltips ?? []).map(
    (tooltip, index) => said.outputs?.[index]?.tooltip ?? tooltip,
  );
}
