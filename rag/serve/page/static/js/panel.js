// The side panel: what an answer rests on, what is known of the repository, and a file at its lines.

import { byId, h, icon, iconButton, refill } from "./dom.js";
import { on, state } from "./state.js";

const TABS = [
  ["sources", "Sources", "book"],
  ["trace", "Trace", "steps"],
  ["calls", "Calls", "fork"],
  ["search", "Search", "search"],
  ["wiki", "Wiki", "pages"],
  ["facts", "Facts", "pin"],
  ["review", "Review", "review"],
];
/** The tabs that are about the selected turn; the others stay as they are when another one is selected. */
const OF_TURN = new Set(["sources", "trace"]);
const WIDE = matchMedia("(min-width: 1100px)");

/** The functions that render each tab, by name. Passed in, because the tabs import this module. */
let renderers = {};
let open = null;
/** The repository that was selected when the tab was drawn. */
let drawnFor = null;
/** The tab that was open last. */
let lastTab = null;
/** The element that had the focus before the panel, to restore it. */
let before = null;

export function startPanel(drawing) {
  renderers = drawing;
  on("selected", redraw);
  on("checked", redraw);
  on("repositories", () => { if (state.repository !== drawnFor && TABS.some(([name]) => name === open)) openPanel(open, { quiet: true }); });
  on("answered", () => { if (!open && WIDE.matches) openPanel("sources", { quiet: true }); });
}

export const panelIsOpen = () => open !== null;
/** Return the tab that was open last, or null. */
export const lastOpenTab = () => lastTab;

/** Show a tab; with `quiet`, without taking the focus. */
export function openPanel(name, { quiet = false } = {}) {
  const panel = shown(name, quiet);
  const body = h("div", { class: "panel-body", id: "panel-body", role: "tabpanel", tabindex: "0", "aria-labelledby": `tab-${name}` });
  refill(panel, tabs(), body);
  lastTab = name;
  drawnFor = state.repository;
  renderers[name](body);
  if (!quiet) byId(`tab-${name}`).focus();
}

/** Show other content in the panel, such as a file. */
export function fillPanel(name, ...content) {
  refill(shown(name), ...content);
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
  refill(byId("panel"));
  delete byId("app").dataset.panel;
  if (before?.isConnected) before.focus({ preventScroll: true });
  before = null;
}

export function togglePanel(name) {
  if (open === name) closePanel();
  else openPanel(name);
}

function redraw() {
  if (!OF_TURN.has(open)) return;
  if (!state.turns.length) closePanel();
  else openPanel(open, { quiet: true });
}

function tabs() {
  return h("div", { class: "panel-head" },
    h("div", { role: "tablist", "aria-label": "Evidence", class: "tabs", onkeydown: onKey }, TABS.map(([name, label, drawing]) =>
      h("button", {
        type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === open), "aria-controls": "panel-body",
        tabindex: name === open ? "0" : "-1", onclick: () => openPanel(name),
        title: label,
      }, icon(drawing), h("span", {}, label)))),
    iconButton("close", "Close the panel", closePanel));
}

function onKey(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const names = TABS.map(([name]) => name);
  openPanel(names[(names.indexOf(open) + by + names.length) % names.length]);
}
