// The input field for questions.

import { ask, setAbout, stop } from "./asking.js";
import { byId, h, icon } from "./dom.js";
import { currentRepository, on, state } from "./state.js";

const MAX_HEIGHT_PX = 220;
let field;
let button;
let about;
/** Whether a question was submitted before the repositories were loaded; it is sent afterwards. */
let pending = false;

export function startComposer() {
  field = h("textarea", { id: "question", rows: "1", placeholder: "Ask about the code", "aria-label": "Question", enterkeyhint: "send", autocomplete: "off", oninput: fit, onkeydown: onKey });
  button = h("button", { type: "button", class: "send", onclick: submit });
  about = h("div", { class: "chips", role: "status" });
  byId("foot").replaceChildren(
    about,
    h("div", { class: "composer" }, field, button),
    h("p", { class: "fine hint" }, h("kbd", {}, "Enter"), " to ask, ", h("kbd", {}, "Shift Enter"), " for a new line, ", h("kbd", {}, "?"), " for all shortcuts"));
  on("asking", draw);
  on("about", drawAbout);
  on("repositories", () => {
    draw();
    if (pending && state.repository) submit();
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

/** Show what "it" means in the next question, with a button to forget it. */
function drawAbout() {
  about.replaceChildren(...(state.about ? [h("button", { type: "button", class: "chip more", title: "Remove", onclick: () => setAbout("") }, h("span", {}, `it = ${state.about}`), icon("close"))] : []));
}

function fit() {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, MAX_HEIGHT_PX)}px`;
  button.disabled = !state.asking && !field.value.trim();
}

function onKey(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!state.asking) submit();
}

function submit() {
  if (state.asking) {
    stop();
    return;
  }
  const question = field.value;
  pending = !state.repository;
  if (!question.trim() || pending) return;
  field.value = "";
  fit();
  const named = /^\/about\s+(.+)$/.exec(question.trim());
  if (named) setAbout(named[1]);
  else ask(question);
}

export function focusQuestion() {
  field.focus();
}

/** Put the beginning of a question into the field. */
export function setQuestion(text) {
  field.value = text;
  fit();
  field.focus();
  field.setSelectionRange(text.length, text.length);
}
