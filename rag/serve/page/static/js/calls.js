// The calls around a definition: who calls it and what it calls, or what a call of it leads to.

import { api } from "./api.js";
import { drawCalls } from "./call-drawing.js";
import { announce, h, plural, qualified, refill } from "./dom.js";
import { on, selectedTurn, servedName, state } from "./state.js";
import { fileUrl, openFile } from "./viewer.js";

const VIEWS = { callers: "Callers and callees", flow: "What a call leads to" };
const RESIZE_MS = 80;

/** What was drawn last, to show it again when the user returns to the tab. */
let last = { symbol: "", view: "callers", found: null };
let calls = 0;
on("indexed", () => { last.found = null; });

export function drawCallsTab(body) {
  const results = h("div", { class: "call-results" });
  const wanted = state.callsOf ?? (last.found && last.repository === state.repository ? null : ofTurn());
  if (wanted) last = { view: last.view, ...wanted, found: null };
  const symbol = h("input", { type: "text", class: "text", name: "symbol", value: last.symbol, "aria-label": "Definition", placeholder: "A definition, such as Class.method", autocomplete: "off", spellcheck: "false", maxlength: "500" });
  const view = h("select", { class: "text", "aria-label": "What is drawn" }, Object.entries(VIEWS).map(([name, label]) => h("option", { value: name, selected: name === last.view }, label)));
  const form = h("form", { class: "search-form", onsubmit: (event) => {
    event.preventDefault();
    // The place belongs to the name that it came with; another name is looked up everywhere.
    const same = symbol.value.trim() === last.symbol;
    run({ ...(same ? last : {}), symbol: symbol.value.trim(), view: view.value }, results);
  } }, symbol, h("div", { class: "search-options" }, view, h("button", { type: "submit", class: "small" }, "Draw")));
  view.addEventListener("change", () => form.requestSubmit());
  state.callsOf = null;
  refill(body, form, results);
  if (last.found && last.repository === state.repository) show(results);
  else if (last.symbol || last.path) run(last, results, symbol);
  else refill(results, h("p", { class: "hollow" }, "Name a definition to see who calls it, and what it calls. In a file, “Calls” draws those of the lines."));
}

/** Put the cursor in the field of the tab. */
export function focusCalls() {
  document.querySelector("[name=symbol]")?.focus();
}

/** Return the definition that the selected turn is about: its subject, else the first cited one with a name. */
function ofTurn() {
  const turn = selectedTurn();
  const cited = turn?.citations.find((one) => one.symbol);
  const about = turn?.subject?.symbol ? turn.subject : cited;
  if (!about) return null;
  return { symbol: qualified(about), path: about.path, start: about.start_line, repository: cited ? servedName(cited.repository) : state.repository };
}

async function run({ symbol, view, path, start, end }, results, field = document.querySelector("[name=symbol]")) {
  const call = ++calls;
  const repository = state.repository;
  if (!repository || (!symbol && !path)) return;
  last = { symbol, view, path, start, end, repository, found: null };
  refill(results, h("p", { class: "hollow" }, "Following the calls…"));
  try {
    const found = await api.calls(repository, { view, ...(symbol && { symbol }), ...(path && { path, start_line: start ?? 1 }), ...(path && end && { end_line: end }) });
    if (call !== calls) return;
    const subject = found.nodes.find((one) => one.depth === 0);
    last = { symbol: subject.name, view, path: subject.path, start: subject.start_line, repository, found };
    if (field) field.value = subject.name;
    show(results);
    announce(found.caption);
  } catch (error) {
    if (call === calls) refill(results, h("p", { class: "hollow", role: "alert" }, error.message));
  }
}

function show(results) {
  const { found, repository, view } = last;
  const figure = h("figure", { class: "call-figure" });
  const open = (node) => openFile({ repository, path: node.path, start: node.start_line, end: node.end_line });
  const href = (node) => fileUrl(repository, node.path, node.start_line, node.end_line);
  const caption = h("figcaption", { class: "fine" }, found.caption);
  let drawn = 0;
  const draw = () => {
    if (Math.abs(figure.clientWidth - drawn) < 2) return;
    drawn = figure.clientWidth;
    const focused = [...figure.querySelectorAll("a")].indexOf(document.activeElement);
    refill(figure, drawCalls(found, drawn, { href, open }), caption);
    if (focused >= 0) figure.querySelectorAll("a")[focused].focus();
  };
  refill(results, figure, others(found, results, view));
  let timer = 0;
  new ResizeObserver(() => { clearTimeout(timer); timer = setTimeout(() => figure.isConnected && draw(), drawn ? RESIZE_MS : 0); }).observe(figure);
  draw();
}

/** Return buttons for the other definitions of the name; "" if there are none. */
function others({ others: found }, results, view) {
  if (!found.length) return "";
  return h("section", {}, h("h3", {}, `${plural(found.length, "other definition")} of this name`),
    h("ul", { class: "call-others" }, found.map((one) => h("li", {},
      h("button", { type: "button", class: "place-link", onclick: () => run({ symbol: one.name, view, path: one.path, start: one.start_line }, results) },
        h("code", {}, `${one.name} · ${one.path}:${one.start_line}`))))));
}
