// All facts about the selected repository: proposed, confirmed and superseded ones.

import { api } from "./api.js";
import { confirmed } from "./dialogs.js";
import { ago, h, note, place, refill } from "./dom.js";
import { on, state } from "./state.js";
import { openFile } from "./viewer.js";

const SHOWN = { all: "All facts", proposed: "Proposed", confirmed: "Confirmed", superseded: "Superseded" };
const ORDER = ["proposed", "confirmed", "superseded"];
const STALE = new Set(["changed", "gone"]);
let shown = "all";
let calls = 0;
/** The list on the page, if the tab is open. */
let list = null;

export function startFactList() {
  on("facts", () => { if (list?.isConnected) load(); });
}

export function drawFacts(body) {
  list = h("div", { class: "fact-list" });
  const field = h("input", { type: "text", class: "text", "aria-label": "A new fact", placeholder: "Add a fact, such as: we always use ruff", autocomplete: "off", maxlength: "2000" });
  const form = h("form", { class: "search-form", onsubmit: async (event) => {
    event.preventDefault();
    if (field.value.trim() && await changed(() => api.addFact(state.repository, field.value.trim()), "Remembered: it is part of every prompt from now on")) field.value = "";
  } }, field, h("div", { class: "search-options" },
    h("select", { class: "text", "aria-label": "Which facts", onchange: (event) => { shown = event.target.value; load(); } },
      Object.entries(SHOWN).map(([name, label]) => h("option", { value: name, selected: name === shown }, label))),
    h("button", { type: "submit", class: "small" }, "Add")));
  refill(body, form, list);
  load();
}

async function load() {
  const call = ++calls;
  const repository = state.repository;
  if (!repository) return;
  if (!list.childNodes.length) refill(list, h("p", { class: "hollow" }, "Loading the facts…"));
  try {
    const [proposed, others] = await Promise.all([api.facts(repository, { state: "proposed" }), api.facts(repository, { closed: true, check: true })]);
    if (call === calls) show([...proposed, ...others]);
  } catch (error) {
    if (call === calls) refill(list, h("p", { class: "hollow", role: "alert" }, error.message));
  }
}

const stateOf = (fact) => (fact.closed ? "superseded" : fact.state);

function show(facts) {
  const known = new Map(facts.map((one) => [one.id, one]));
  const wanted = facts.filter((one) => shown === "all" || stateOf(one) === shown);
  const parts = ORDER.map((name) => [name, wanted.filter((one) => stateOf(one) === name).reverse()]).filter(([, all]) => all.length);
  const none = facts.length ? "No fact is in this state." : "Nothing is remembered yet. Facts that your questions state are proposed below their answers, and you can add one here.";
  refill(list, ...(parts.length ? parts.map(([name, all]) => h("section", {}, h("h3", {}, `${SHOWN[name]} (${all.length})`), h("ul", {}, all.map((one) => row(one, known))))) : [h("p", { class: "hollow" }, none)]));
}

function row(fact, known) {
  const now = stateOf(fact);
  const newer = known.get(fact.superseded_by);
  const older = (now === "proposed" ? fact.may_supersede : []).map((id) => known.get(id)).filter((one) => one && !one.closed);
  const replaced = older.map((one) => h("input", { type: "checkbox", value: one.id }));
  const about = [fact.scope, fact.valid_from && `since ${fact.valid_from.slice(0, 7)}`, ago(fact.created), newer && `replaced by “${newer.text}”`];
  return h("li", { class: `fact ${now}` },
    h("q", {}, fact.text),
    h("span", { class: "fine" }, about.filter(Boolean).join(" · ")),
    ...older.map((one, n) => h("label", { class: "fine fact-replaces" }, replaced[n], h("span", {}, "It replaces: ", h("q", {}, one.text)))),
    fact.citations.length > 0 && h("ul", { class: "fact-places" }, fact.citations.map((cited) => h("li", {}, source(cited)))),
    freshness(fact),
    h("span", { class: "badge-actions" },
      now === "proposed" && button("Keep", fact, () => changed(() => api.decideFact(fact.id, "confirm", { supersedes: replaced.filter((one) => one.checked).map((one) => one.value) }), "Kept: it is part of every prompt from now on")),
      now === "proposed" && button("Dismiss", fact, () => changed(() => api.decideFact(fact.id, "reject"), "Dismissed: it is not proposed again")),
      now !== "proposed" && button("Forget", fact, () => forget(fact))));
}

const button = (label, fact, onclick) => h("button", { type: "button", class: "small", "aria-label": `${label}: ${fact.text}`, onclick }, label);

function source(cited) {
  const { repository } = state;
  return h("button", { type: "button", class: "place-link", onclick: () => openFile({ repository, path: cited.path, start: cited.start_line, end: cited.end_line }) }, h("code", {}, place(cited)));
}

/** Return whether the code that a fact rests on is still the same; null if there is none, or if it was not checked. */
function freshness(fact) {
  const kind = fact.freshness?.state;
  return kind ? h("span", { class: `state ${kind}` }, STALE.has(kind) ? `${kind}: the code it rests on is different now` : kind) : null;
}

async function forget(fact) {
  if (await confirmed("Forget this fact?", `“${fact.text.slice(0, 200)}” is deleted. Prompts do not have it any more.`, "Forget")) await changed(() => api.forgetFact(fact.id), "Forgotten");
}

/** Make a change and load the list again; return whether it was made. */
async function changed(act, done) {
  try {
    await act();
  } catch (error) {
    note(error.message, "bad");
    return false;
  }
  note(done);
  await load();
  return true;
}
