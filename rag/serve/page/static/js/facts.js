// The facts that a question states: proposed below its answer, to be kept or dismissed.

import { api } from "./api.js";
import { h, note } from "./dom.js";
import { emit, on, state } from "./state.js";

/** How much of an id the server's notes show. */
const ID_CHARS = 8;

export function startFacts() {
  on("answered", load);
}

/** Load what was proposed from a turn. */
async function load(turn) {
  if (turn.state !== "done" || !turn.id || !state.repository) return;
  try {
    turn.proposed = (await api.facts(state.repository, { state: "proposed" })).filter((one) => one.turn === turn.id);
  } catch {
    return; // the answer is complete without it
  }
  if (!turn.proposed.length) return;
  const ids = turn.proposed.map((one) => one.id.slice(0, ID_CHARS));
  turn.notes = turn.notes.filter((text) => !ids.some((id) => text.includes(id))); // two buttons are shown instead
  emit("turn", turn);
  emit("facts");
}

/** Return the facts that a turn proposes, each with its two buttons; null if there are none. */
export function proposals(turn) {
  if (!turn.proposed?.length) return null;
  return h("div", { class: "proposals" }, turn.proposed.map((fact) => h("div", { class: "proposal" },
    h("span", {}, "A fact to remember? ", h("q", {}, fact.text)),
    h("span", { class: "badge-actions" },
      h("button", { type: "button", class: "small", onclick: () => decide(turn, fact, "confirm", "Kept: it is part of every prompt from now on.") }, "Keep"),
      h("button", { type: "button", class: "small", onclick: () => decide(turn, fact, "reject", "Dismissed: it is not proposed again.") }, "Dismiss")))));
}

async function decide(turn, fact, how, done) {
  try {
    await api.decideFact(fact.id, how);
  } catch (error) {
    note(error.message, "bad");
    return;
  }
  turn.proposed = turn.proposed.filter((one) => one !== fact);
  emit("turn", turn);
  emit("facts");
  note(done);
}
