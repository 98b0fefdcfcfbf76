// Keyboard shortcuts, active while no text is being entered.

import { stop } from "./asking.js";
import { focusCalls } from "./calls.js";
import { chooseAbout, focusQuestion } from "./composer.js";
import { begin, focusSearch, showSide } from "./conversations.js";
import { showKeys } from "./dialogs.js";
import { byId } from "./dom.js";
import { closeMenu } from "./menus.js";
import { closePanel, openPanel, panelIsOpen, togglePanel } from "./panel.js";
import { focusReview } from "./review.js";
import { focusCodeSearch } from "./search.js";
import { selectedTurn, state } from "./state.js";
import { openCited, step } from "./thread.js";

const ACTIONS = {
  "/": focusQuestion,
  j: () => step(1),
  k: () => step(-1),
  n: begin,
  f: focusSearch,
  s: () => togglePanel("sources"),
  t: () => togglePanel("trace"),
  g: () => { openPanel("calls"); focusCalls(); },
  w: () => togglePanel("wiki"),
  a: () => togglePanel("facts"),
  i: () => chooseAbout(),
  c: () => { openPanel("search"); focusCodeSearch(); },
  r: () => { openPanel("review"); focusReview(); },
  o: () => { const turn = selectedTurn(); if (turn?.citations.length) openCited(turn, turn.citations[0]); },
  "?": showKeys,
};

export function startKeys() {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const writing = event.target.closest?.("input, textarea, [contenteditable]");
    if (event.key === "Escape") escape(writing);
    else if (!writing && !event.target.closest?.("canvas") && ACTIONS[event.key]) {
      event.preventDefault();
      ACTIONS[event.key]();
    }
  });
}

function escape(writing) {
  if (closeMenu()) return;
  if (state.asking) stop();
  else if (byId("app").classList.contains("side-open")) showSide(false);
  else if (writing) writing.blur();
  else if (panelIsOpen()) closePanel();
}
