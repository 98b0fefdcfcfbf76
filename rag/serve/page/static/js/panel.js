// The panel beside the answer: sources, how they were found, the map; and a file, opened at its lines.

import { byId, h, icon, iconButton } from "./dom.js";
import { on, state } from "./state.js";

const TABS = [
  ["sources", "Sources", "book"],
  ["trace", "Trace", "steps"],
  ["map", "Map", "map"],
];
const WIDE = matchMedia("(min-width: 1100px)");

/** The function that draws each tab into an element, by name. The tabs import this module, not the other way round. */
let drawn = {};
let open = null;
/** What had the focus before the panel took it, to give it back. */
let before = null;

export function startPanel(drawing) {
  drawn = drawing;
  on("selected", redraw);
  on("checked", redraw);
  on("answered", () => { if (!open && WIDE.matches) openPanel("sources", { quiet: true }); });
}

export const panelIsOpen = () => open !== null;

/** Show a tab; a `quiet` one takes no focus. */
export function openPanel(name, { quiet = false } = {}) {
  const panel = shown(name, quiet);
  const body = h("div", { class: "panel-body", id: "panel-body", role: "tabpanel", tabindex: "0", "aria-labelledby": `tab-${name}` });
  panel.replaceChildren(tabs(), body);
  drawn[name](body);
  if (!quiet) byId(`tab-${name}`).focus();
}

/** Fill the panel with something of its own, such as a file. */
export function fillPanel(name, ...content) {
  shown(name).replaceChildren(...content);
}

function shown(name, quiet = false) {
  const panel = byId("panel");
  if (!quiet && !panel.contains(document.activeElement)) before = document.activeElement;
  open = name;
  panel.hidden = false;
  byId("app").dataset.panel = name;
  return panel;
}

export function closePanel() {
  open = null;
  byId("panel").hidden = true;
  byId("panel").replaceChildren();
  delete byId("app").dataset.panel;
  if (before?.isConnected) before.focus({ preventScroll: true });
  before = null;
}

export function togglePanel(name) {
  if (open === name) closePanel();
  else openPanel(name);
}

function redraw() {
  if (!TABS.some(([name]) => name === open)) return;
  if (!state.turns.length && open !== "map") closePanel();
  else openPanel(open, { quiet: true });
}

function tabs() {
  return h("div", { class: "panel-head" },
    h("div", { role: "tablist", "aria-label": "Evidence", class: "tabs", onkeydown: walk }, TABS.map(([name, label, drawing]) =>
      h("button", {
        type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === open), "aria-controls": "panel-body",
        tabindex: name === open ? "0" : "-1", onclick: () => openPanel(name),
      }, icon(drawing), label))),
    iconButton("close", "Close the panel", closePanel));
}

function walk(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const names = TABS.map(([name]) => name);
  openPanel(names[(names.indexOf(open) + by + names.length) % names.length]);
}
