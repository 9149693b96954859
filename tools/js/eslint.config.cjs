// What ESLint looks for. It is installed elsewhere (tools/javascript.py), its own rules beside it.
const { createRequire } = require("node:module");

const js = createRequire(process.argv[1])("@eslint/js");

const named = (...names) => Object.fromEntries(names.map((name) => [name, "readonly"]));
const banned = (message, ...properties) => properties.map((property) => ({ property, message }));
const MARKUP = banned("Text is set as text, never parsed as markup: see js/lib/dom.js.", "innerHTML", "outerHTML", "insertAdjacentHTML");
const PRIVATE = banned(
  "The frontend does not promise this: js/lib/frontend.js asks for it, and says what holds without it.",
  "LiteGraph", "LGraphBadge", "LGraphCanvas", "LGraphNode", "changeTracker", "activeWorkflow", "sidebarTab", "vueNodesMode", "prototype",
);

const rules = {
  ...js.configs.recommended.rules,
  "array-callback-return": "error",
  "block-scoped-var": "error",
  eqeqeq: ["error", "always", { null: "ignore" }],
  "no-caller": "error",
  "no-constructor-return": "error",
  "no-eval": "error",
  "no-implied-eval": "error",
  "no-lone-blocks": "error",
  "no-loop-func": "error",
  "no-new-func": "error",
  "no-new-wrappers": "error",
  "no-restricted-properties": ["error", ...MARKUP, ...PRIVATE],
  "no-self-compare": "error",
  "no-sequences": "error",
  "no-shadow": ["error", { builtinGlobals: false, hoist: "all" }],
  "no-template-curly-in-string": "error",
  "no-throw-literal": "error",
  "no-undef-init": "error",
  "no-unmodified-loop-condition": "error",
  "no-unreachable-loop": "error",
  "no-unused-expressions": "error",
  "no-unused-vars": ["error", { args: "all", argsIgnorePattern: "^_$", caughtErrors: "all" }],
  "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
  "no-useless-return": "error",
  "no-var": "error",
  "prefer-const": "error",
  "prefer-promise-reject-errors": "error",
  radix: "error",
};

module.exports = [
  {
    files: ["js/**/*.js"],
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "module",
      globals: named(
        "AbortSignal", "Blob", "CSS", "Element", "HTMLElement", "ResizeObserver", "URL", "clearTimeout", "console", "document",
        "navigator", "requestAnimationFrame", "setTimeout", "window",
      ),
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules,
  },
  {
    files: ["js/lib/frontend.js"],
    rules: { "no-restricted-properties": ["error", ...MARKUP] },
  },
  {
    files: ["tests/js/**/*.mjs"],
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: named("AbortController", "AbortSignal", "Event", "EventTarget", "URL", "clearTimeout", "console", "setTimeout") },
    rules: { ...rules, "no-restricted-properties": "off" },
  },
];
