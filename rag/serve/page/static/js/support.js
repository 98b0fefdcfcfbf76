// What is shown of an answer besides its text: the steps of a second look, and the check of its statements.

import { byId, h, plural } from "./dom.js";

const LOOK = "look";
/** The words for each kind of flagged statement. */
const KINDS = {
  unsupported: "Not supported by its sources",
  uncited: "Cites no source",
  unknown_name: "Unknown name",
};

/** Return the steps of a second look among the steps towards an answer; its end ("look" alone) only if it failed. */
export const lookSteps = (steps) => (steps ?? []).filter((one) => one.name.startsWith(`${LOOK} `) || (one.name === LOOK && one.error));

/** Return the steps of a second look as a list that is open until the text begins; null without steps. */
export function steps(turn) {
  const made = lookSteps(turn.steps);
  if (!made.length) return null;
  const running = turn.state === "writing" && !turn.answer;
  const box = h("details", { class: "looked", open: turn.stepsOpen ?? running },
    h("summary", { onclick: () => { turn.stepsOpen = !box.open; } }, `Looked again: ${plural(made.length, "step")}`),
    h("ol", {}, made.map((one) => h("li", {}, h("code", {}, stepText(one)), h("span", {}, [one.result, one.error].filter(Boolean).join("; "))))));
  return box;
}

const stepText = (one) => [one.name.slice(LOOK.length + 1) || LOOK, one.query].filter(Boolean).join(": ");

/** Return the kind of a flagged statement and its reason; one without a source has at most one that has its words. */
const why = (one) => (one.kind !== "uncited" ? `${KINDS[one.kind]}: ${one.reason}`
  : KINDS.uncited + (one.cited.length ? `; [${one.cited[0]}] has its words` : ""));

const flaggedId = (turn, number) => `flagged-${turn.key}-${number}`;

/** Return a mark for each flagged statement as `{at, element}`; `at` is the end of the statement in code points. */
export const flagMarks = (turn) => (turn.support?.flagged ?? []).map((one, number) => ({
  at: one.end_char,
  element: () => h("button", {
    type: "button", class: `flag ${one.kind}`, title: why(one), "aria-label": why(one),
    onclick: () => showFlagged(turn, number),
  }, "?"),
}));

function showFlagged(turn, number) {
  const item = byId(flaggedId(turn, number));
  item.closest("details").open = true;
  item.focus();
}

/** Return one line on the statements that are not supported, which opens to their list; null if there are none. */
export function support(turn) {
  const check = turn.support;
  if (!check?.flagged.length) return null;
  return h("details", { class: "support" },
    h("summary", {}, counts(check)),
    h("ol", {}, check.flagged.map((one, number) => h("li", { id: flaggedId(turn, number), tabindex: "-1" },
      h("q", {}, one.text), h("span", {}, why(one))))),
    !check.complete && h("p", {}, "There are more, or the answer was too long to be checked whole."));
}

function counts(check) {
  const names = check.unknown_names.length;
  const parts = [
    check.unsupported > 0 && `${check.unsupported} not supported by the sources`,
    check.uncited > 0 && `${check.uncited} without a source`,
    names > 0 && plural(names, "unknown name"),
  ];
  return `Of ${plural(check.statements, "statement")}: ${parts.filter(Boolean).join(", ")}`;
}
