// Searches the code of the selected repository: for a question, an exact text or an expression.

import { api } from "./api.js";
import { announce, h, place, plural, qualified, refill } from "./dom.js";
import { highlighted } from "./highlight.js";
import { state } from "./state.js";
import { dedented } from "./text.js";
import { openFile } from "./viewer.js";

const MODES = { question: "By meaning", exact: "Exact text", regex: "Expression (RE2)" };
const MAX_HITS = 50;
const MAX_LINES = 200;
const PREVIEW_LINES = 7;

/** The last search, to show it again when the user returns to the tab. */
let last = { question: "", mode: "question", path: "", repository: null, found: null };
let calls = 0;

export function drawSearch(body) {
  const results = h("div", { class: "search-results" });
  const question = h("input", { type: "search", class: "text", name: "question", value: last.question, "aria-label": "Search the code", placeholder: "Search the code", autocomplete: "off", spellcheck: "false", maxlength: "1000" });
  const mode = h("select", { class: "text", name: "mode", "aria-label": "Kind of search" },
    Object.entries(MODES).map(([name, label]) => h("option", { value: name, selected: name === last.mode }, label)));
  const path = h("input", { type: "text", class: "text", name: "path", value: last.path, "aria-label": "Only these files", placeholder: "Files, such as src/**/*.py", autocomplete: "off", spellcheck: "false", maxlength: "200" });
  const form = h("form", { class: "search-form", role: "search", onsubmit: (event) => {
    event.preventDefault();
    run({ question: question.value, mode: mode.value, path: path.value.trim() }, results);
  } }, question, h("div", { class: "search-options" }, mode, path, h("button", { type: "submit", class: "small" }, "Search")));
  mode.addEventListener("change", () => { if (question.value.trim()) form.requestSubmit(); });
  refill(body, form, results);
  if (last.found && last.repository === state.repository) show(results, last);
}

/** Put the cursor in the field of the tab. */
export function focusCodeSearch() {
  document.querySelector(".search-form input")?.focus();
}

async function run({ question, mode, path }, results) {
  const call = ++calls;
  const repository = state.repository;
  if (!question.trim() || !repository) return;
  last = { question, mode, path, repository, found: null };
  refill(results, h("p", { class: "hollow" }, "Searching…"));
  try {
    const found = await searched(last);
    if (call !== calls) return;
    last.found = found;
    show(results, last);
    announce(summary(found));
  } catch (error) {
    if (call === calls) refill(results, h("p", { class: "hollow", role: "alert" }, error.message));
  }
}

function searched({ question, mode, path, repository }, page = 1) {
  const k = mode === "question" ? MAX_HITS : MAX_LINES;
  return api.search({ question, mode, repositories: [repository], paths: path ? [path] : [], k, page });
}

function show(results, { found, repository }) {
  const hits = h("ol", { class: "search-hits" }, found.hits.map((hit) => h("li", {}, card(hit, repository))));
  refill(results, h("p", { class: "fine" }, summary(found)), hits, rest(results, found.matches));
}

/** Name the files of the lines that are not shown, with a button for the next ones. */
function rest(results, matches) {
  if (!matches?.rest.length) return null;
  const files = matches.rest.map((one) => `${one.path} ${one.lines}`).join(", ");
  const more = h("button", { type: "button", class: "small", onclick: () => showMore(results, more) }, "Show more lines");
  return h("div", {}, h("p", { class: "fine" }, `Not shown (${plural(matches.more, "line")}): ${files}.`), matches.next_page ? more : null);
}

async function showMore(results, button) {
  const of = last;
  button.disabled = true;
  try {
    const next = await searched(of, of.found.matches.next_page);
    if (of !== last) return;
    last.found = { ...next, hits: [...of.found.hits, ...next.hits] };
    show(results, last);
  } catch (error) {
    button.disabled = false;
    announce(error.message);
  }
}

/** Return how much was found: "214 matches in 30 files; the first 50 lines are shown". */
function summary({ hits, matches, remarks }) {
  const said = [...(remarks ?? [])];
  if (!matches) said.unshift(hits.length ? `The ${plural(hits.length, "nearest place")}, the best first` : "Nothing is near this question");
  else if (!matches.count) said.unshift("No match");
  else {
    const shown = matches.more ? `; the first ${plural(hits.length, "line")} are shown` : "";
    said.unshift(`${matches.complete ? "" : "At least "}${plural(matches.count, "match").replace(/matchs$/, "matches")} in ${plural(matches.files, "file")}${shown}`);
  }
  return `${said.join(". ")}.`;
}

function card(hit, repository) {
  const slash = hit.path.lastIndexOf("/") + 1;
  const text = dedented(hit.text).split("\n").slice(0, PREVIEW_LINES).join("\n");
  return h("button", { type: "button", class: "source", onclick: () => openFile({ repository, path: hit.path, start: hit.start_line, end: hit.end_line }) },
    h("span", { class: "source-head" },
      h("span", { class: "unseen" }, "Open "),
      h("span", { class: "source-path" }, h("span", { class: "folder" }, hit.path.slice(0, slash)), h("span", {}, hit.path.slice(slash)), h("span", { class: "lines" }, place(hit).slice(hit.path.length)))),
    hit.symbol ? h("span", { class: "search-about" }, h("code", {}, qualified(hit))) : null,
    h("pre", { class: "preview", "aria-hidden": "true" }, highlighted(text, hit.language)));
}
