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

/** Name the sockets and widgets of a node that has just been made, as those of core's nodes are. */
export function translateSlots(node, words) {
  const said = words?.nodeDefs?.[node.comfyClass];
  if (!said || !node.comfyClass.startsWith("Headroom")) return;
  const named = (slot) => said.inputs?.[slot.name]?.name;
  for (const input of node.inputs ?? []) input.localized_name = named(input) ?? input.localized_name;
  for (const widget of node.widgets ?? []) widget.label = named(widget) ?? widget.label;
  for (const [index, output] of (node.outputs ?? []).entries()) {
    output.localized_name = said.outputs?.[index]?.name ?? output.localized_name;
  }
}

/** Commands with their labels in the user's language; unknown ones stay. */
export function translateCommands(commands, words) {
  return commands.map((command) => ({ ...command, ...words?.commands?.[command.id.replaceAll(".", "_")] }));
}

/** Settings with their names, tooltips and groups in the user's language; unknown ones stay. */
export function translateSettings(settings, words) {
  const groups = words?.settingsCategories ?? {};
  return settings.map((setting) => {
    const said = words?.settings?.[setting.id.replaceAll(".", "_")] ?? {};
    const [pack, group, key] = setting.category;
    return {
      ...setting,
      name: said.name ?? setting.name,
      tooltip: said.tooltip ?? setting.tooltip,
      ...(said.options && { options: setting.options.map((one) => ({ text: said.options[one.value ?? one] ?? one.text ?? one, value: one.value ?? one })) }),
      category: [pack, groups[group] ?? group, key],
    };
  });
}
