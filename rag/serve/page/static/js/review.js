// Shows what a change of the selected repository makes false.

import { api } from "./api.js";
import { announce, h, icon, plural, refill } from "./dom.js";
import { copyText } from "./markdown.js";
import { currentRepository, state } from "./state.js";
import { openFile } from "./viewer.js";

const SHOWN = 30;

/** The last review, to show it again when the user returns to the tab. */
let last = { range: "", repository: null, found: null };
let calls = 0;

export function drawReview(body) {
  const results = h("div", { class: "search-results" });
  const range = h("input", { type: "text", class: "text", name: "range", value: last.range, "aria-label": "Commits to compare", placeholder: "main...HEAD; nothing: the work tree", autocomplete: "off", spellcheck: "false", maxlength: "500" });
  const form = h("form", { class: "search-form", onsubmit: (event) => {
    event.preventDefault();
    run(range.value.trim(), results);
  } }, range, h("div", { class: "search-options" }, h("button", { type: "submit", class: "small" }, "Review")));
  refill(body, form, results);
  if (last.found && last.repository === state.repository) show(results, last);
}

/** Put the cursor in the field of the tab. */
export function focusReview() {
  document.querySelector("[name=range]")?.focus();
}

async function run(range, results) {
  const call = ++calls;
  const repository = state.repository;
  if (!repository) return;
  last = { range, repository, found: null };
  refill(results, h("p", { class: "hollow" }, "Comparing…"));
  try {
    const found = await api.review(repository, range);
    if (call !== calls) return;
    last.found = found;
    show(results, last);
    announce(summary(found));
  } catch (error) {
    if (call === calls) refill(results, h("p", { class: "hollow", role: "alert" }, error.message));
  }
}

function summary({ makes_false, counts }) {
  return `${makes_false ? "The change makes something false" : "Nothing becomes false"}; ${plural(counts.symbols, "symbol")} changed in ${plural(counts.files, "file")}.`;
}

function show(results, { found, repository }) {
  const indexed = currentRepository();
  const isIndexed = !found.head_commit || (found.head_commit === indexed?.commit && !indexed.dirty);
  const open = (path, start, end) => (isIndexed ? () => openFile({ repository, path, start, end }) : null);
  const moved = Object.fromEntries(found.symbols.filter((one) => one.was).map((one) => [one.was, `, now ${one.path}:${one.name}`]));
  const symbols = found.symbols.filter((one) => one.change !== "comment" && !one.is_test);
  refill(results,
    h("div", { class: "review-head" }, h("p", { class: "fine" }, summary(found)),
      h("button", { type: "button", class: "small", onclick: () => copyText(found.markdown) }, icon("copy"), "Copy as Markdown")),
    ...part("Still used, but gone", found.broken, (one) => [link(`${one.path}:${one.line}`, open(one.path, one.line, one.line)), ` uses ${one.symbol}${moved[one.symbol] ?? ""}${one.certain ? "" : " (possibly)"}`]),
    ...part("No longer supported by the code", found.statements, (one) => [`${one.text} — ${one.state}`, ...one.sources.map((source) => [h("br"), h("code", {}, source.place), ` ${source.state}`]).flat()]),
    ...part("Changed symbols", symbols, (one) => [link(one.name, one.change === "removed" ? null : open(one.path, one.start_line, one.end_line)), ` ${one.change}`, one.caller_count ? `, ${plural(one.caller_count, "use")}` : ""]),
    ...part("Tests to run", found.tests, (one) => [link(one.path, open(one.path, 1, 1)), ` ${one.reason || "changed itself"}`]),
    ...found.notes.map((note) => h("p", { class: "fine" }, note)));
}

function part(title, found, drawn) {
  if (!found.length) return [];
  const more = found.length > SHOWN ? h("p", { class: "fine" }, `${found.length - SHOWN} more`) : null;
  return [h("section", {}, h("h3", {}, `${title} (${found.length})`), h("ul", { class: "review-list" }, found.slice(0, SHOWN).map((one) => h("li", {}, drawn(one)))), more)];
}

/** Return a name that opens the file; plain where the page does not have that state of it. */
function link(text, onclick) {
  return onclick ? h("button", { type: "button", class: "place-link", onclick }, text) : h("code", {}, text);
}
