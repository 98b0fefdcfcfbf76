// Where a question is written.

import { ask, stop } from "./asking.js";
import { byId, h, icon } from "./dom.js";
import { currentRepository, on, state } from "./state.js";

const MOST_PX = 220;
let field;
let button;
/** Whether a question was sent off before the repositories were known: it goes out when they are. */
let early = false;

export function startComposer() {
  field = h("textarea", { id: "question", rows: "1", placeholder: "Ask about the code", "aria-label": "Question", enterkeyhint: "send", autocomplete: "off", oninput: fit, onkeydown: typed });
  button = h("button", { type: "button", class: "send", onclick: pressed });
  byId("foot").replaceChildren(
    h("div", { class: "composer" }, field, button),
    h("p", { class: "fine hint" }, h("kbd", {}, "Enter"), " asks, ", h("kbd", {}, "Shift Enter"), " makes a new line, ", h("kbd", {}, "?"), " shows all keys"));
  on("asking", draw);
  on("repositories", () => {
    draw();
    if (early && state.repository) pressed();
  });
  draw();
}

function draw() {
  const repository = currentRepository();
  field.placeholder = repository ? `Ask about ${repository.name}` : "Ask about the code";
  const asking = Boolean(state.asking);
  button.replaceChildren(icon(asking ? "stop" : "send"));
  button.setAttribute("aria-label", asking ? "Stop" : "Ask");
  button.title = asking ? "Stop (Esc)" : "Ask (Enter)";
  button.classList.toggle("stopping", asking);
  fit();
}

function fit() {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, MOST_PX)}px`;
  button.disabled = !state.asking && !field.value.trim();
}

function typed(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!state.asking) pressed();
}

function pressed() {
  if (state.asking) {
    stop();
    return;
  }
  const question = field.value;
  early = !state.repository;
  if (!question.trim() || early) return;
  field.value = "";
  fit();
  ask(question);
}

export function focusQuestion() {
  field.focus();
}

/** Begin a question for the reader to finish. */
export function setQuestion(text) {
  field.value = text;
  fit();
  field.focus();
  field.setSelectionRange(text.length, text.length);
}
