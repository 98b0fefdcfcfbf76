// How the lines of a source differ from those that were cited.

import { api } from "./api.js";
import { h, refill } from "./dom.js";
import { freshnessOf, state } from "./state.js";

const DIFFERING = new Set(["changed", "reformatted", "gone"]);
const KINDS = { "+": "added", "-": "removed", "@": "where" };
/** The first two lines of a diff name the two places. */
const HEAD_LINES = 2;

/** Return the old and new lines of a source that differ, read when they are opened; "" if none do. */
export function changes(cited, turn, { open = false } = {}) {
  if (!DIFFERING.has(freshnessOf(turn, cited.n)?.state)) return "";
  const lines = h("pre", { class: "diff", tabindex: "0", "aria-label": `What changed in source ${cited.n}` });
  const read = async () => {
    lines.textContent = "Reading the old lines…";
    try {
      turn.diffs ??= api.freshness(state.conversation.id, true).then((turns) => turns.find((one) => one.turn === turn.id));
      const diff = (await turn.diffs)?.citations.find((one) => one.n === cited.n)?.diff;
      refill(lines, ...(diff ? diff.split("\n").map(diffLine) : ["The old or the new lines are not available."]));
    } catch (error) {
      turn.diffs = undefined; // the next time it is read again
      lines.textContent = `The lines could not be read: ${error.message}`;
    }
  };
  // What is drawn again after a check stays open.
  turn.opened ??= new Set();
  const toggled = ({ target }) => {
    if (target.open) turn.opened.add(cited.n);
    else turn.opened.delete(cited.n);
    if (target.open && !lines.childNodes.length) read();
  };
  return h("details", { class: "changes", open: open || turn.opened.has(cited.n), ontoggle: toggled },
    h("summary", {}, "What changed"), lines);
}

const diffLine = (line, n) => h("span", { class: n < HEAD_LINES ? "where" : KINDS[line[0]] }, `${line}\n`);
