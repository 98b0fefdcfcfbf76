// The input field for questions.

import { ask, setAbout, stop } from "./asking.js";
import { typedText } from "./dialogs.js";
import { byId, h, icon, iconButton, refill } from "./dom.js";
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
  about = h("div", { class: "chips about", role: "group", "aria-label": "What “it” means in the next question" });
  refill(byId("foot"),
    about,
    h("div", { class: "composer" }, field, button),
    h("p", { class: "fine hint" }, h("kbd", {}, "Enter"), " to ask, ", h("kbd", {}, "Shift Enter"), " for a new line, ", h("kbd", {}, "?"), " for all shortcuts"));
  on("asking", draw);
  on("about", drawAbout);
  on("conversation", drawAbout);
  on("turn", (turn) => { if (turn.state !== "writing") drawAbout(); });
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
  refill(button, icon(asking ? "stop" : "send"));
  button.setAttribute("aria-label", asking ? "Stop" : "Ask");
  button.title = asking ? "Stop (Esc)" : "Ask (Enter)";
  button.classList.toggle("stopping", asking);
  fit();
}

/** Show what "it" means in the next question: as set, with a button to clear it, else as the last answer left it. */
function drawAbout() {
  const given = state.about;
  const meant = given || state.turns.findLast((turn) => turn.state === "done")?.subject?.name;
  const focused = about.contains(document.activeElement);
  refill(about, ...(meant ? [
    h("button", { type: "button", class: `chip more ${given ? "chosen" : ""}`, title: given ? "Change what “it” means" : "What “it” means, from the last answer; change it", onclick: chooseAbout }, h("span", {}, `it = ${meant}`)),
    given && iconButton("close", `Clear what “it” means: ${given}`, () => { setAbout(""); focusQuestion(); }, { class: "icon-button about-clear" }),
  ].filter(Boolean) : []));
  if (focused) focusQuestion();
}

/** Ask for the definition or the file that "it" means in the next question. */
export async function chooseAbout() {
  const name = await typedText("What does “it” mean?", { label: "Definition or file", value: state.about, verb: "Set", limit: 500, about: "In the next question “it” means this, such as Class.method or src/module.py. Leave it empty for what the conversation is about." });
  if (name === null) return;
  setAbout(name);
  focusQuestion();
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
  const command = /^\/about(?:\s+(.+))?$/.exec(question.trim());
  if (!command) ask(question);
  else if (command[1]) setAbout(command[1]);
  else chooseAbout();
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
