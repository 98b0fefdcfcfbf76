// The open conversation: questions, answers, and the actions for each.

import { api } from "./api.js";
import { ask, setAbout } from "./asking.js";
import { changes } from "./changes.js";
import { focusQuestion } from "./composer.js";
import { confirmed } from "./dialogs.js";
import { ago, byId, h, icon, iconButton, note, place, plural, qualified, refill, took } from "./dom.js";
import { proposals } from "./facts.js";
import { copyText, showMarkdown } from "./markdown.js";
import { openPanel } from "./panel.js";
import { currentRepository, freshnessOf, on, present, selectedTurn, servedName, state, emit } from "./state.js";
import { summary } from "./repositories.js";
import { flagMarks, steps, support } from "./support.js";
import { openFile } from "./viewer.js";
import { forkAt } from "./conversations.js";

const MAX_CHIPS = 6;
const LONG_QUESTION = 160;
let known = { repository: null, overview: null };

on("indexed", () => { known = { repository: null, overview: null }; });

export function startThread() {
  on("conversation", drawAll);
  on("turn", drawTurn);
  on("selected", markSelected);
  on("repositories", () => {
    if (!state.turns.length) drawAll();
    for (const turn of state.turns) if (turn.indexing) drawTurn(turn);
  });
  drawAll();
}

function drawAll() {
  const thread = byId("thread");
  if (!state.turns.length) {
    refill(thread, empty());
    return;
  }
  refill(thread, ...state.turns.map((turn) => drawn(turn)));
  markSelected();
}

function empty() {
  const repository = currentRepository();
  const name = repository?.name ?? "a repository";
  const ready = repository?.state === "ready";
  const about = ready ? `${plural(repository.files ?? 0, "file")}, ${plural(repository.chunks ?? 0, "chunk")} indexed` : repository ? `${summary(repository)}: you can ask as soon as it is indexed` : "";
  const overview = h("div", { class: "answer overview" });
  const questions = h("ul", { class: "examples", "aria-label": "Questions to ask" });
  if (ready) showOverview(repository.name, overview, questions);
  return h("section", { class: "empty", "aria-label": "Start" },
    h("div", { class: "empty-mark" }, icon("talk")),
    h("h2", {}, "Ask ", h("em", {}, name), " anything"),
    h("p", {}, "Answers cite the lines they are based on. When the code changes, you see which answers may be out of date."),
    about && h("p", { class: "fine" }, about),
    questions,
    overview);
}

/** Show what a repository is and the questions to ask; nothing if that fails, as a question can be asked anyway. */
async function showOverview(repository, overview, questions) {
  if (known.repository !== repository) known = { repository, overview: api.overview(repository) };
  const found = await known.overview.catch(() => null);
  if (!found) {
    known = { repository: null, overview: null };
    return;
  }
  showMarkdown(overview, found.text, { open: (path, start, end) => openFile({ repository, path, start, end }) });
  refill(questions, ...found.questions.map((question) => h("li", {}, h("button", { type: "button", onclick: () => ask(question) }, question.replaceAll("`", "")))));
}

function drawTurn(turn) {
  const old = byId(`turn-${turn.key}`);
  const fresh = drawn(turn);
  if (old) {
    const focused = old.contains(document.activeElement);
    old.replaceWith(fresh);
    if (focused) fresh.focus({ preventScroll: true });
  } else {
    if (state.turns.length === 1) refill(byId("thread"));
    byId("thread").append(fresh);
  }
  markSelected();
}

function drawn(turn) {
  const body = h("div", { class: "answer", "aria-busy": turn.state === "writing" });
  showMarkdown(body, turn.answer, {
    cite: (n, start, end) => citation(turn, n, start, end),
    open: (path, start, end) => openFile({ repository: state.repository, path, start, end }),
    whole: turn.state !== "writing",
    marks: flagMarks(turn),
  });
  if (turn.state === "writing") endOf(body).append(h("span", { class: "caret", "aria-hidden": "true" }));
  const article = h("article", { class: `turn ${turn.state}`, id: `turn-${turn.key}`, tabindex: "-1", "aria-label": `Question: ${turn.question}` },
    h("h2", { class: turn.question.length > LONG_QUESTION ? "question long" : "question" }, turn.question),
    turn.check && badge(turn),
    steps(turn),
    turn.state === "writing" && !turn.answer ? waiting(turn.indexing ? indexing(turn.indexing) : "Reading the repository") : body,
    turn.reconnecting && turn.answer && waiting("Reconnecting"),
    turn.state === "writing" ? h("div", { class: "after" }, chips(turn, turn.citations)) : ending(turn));
  // In the capture phase, before a button acts: "Ask again" selects another turn.
  article.addEventListener("click", () => select(turn), { capture: true });
  return article;
}

/** Return the innermost last element of the text, where the caret belongs. */
function endOf(element) {
  const last = element.lastElementChild;
  return last?.matches("p, ul, ol, li, blockquote, h1, h2, h3, h4, h5, h6") ? endOf(last) : element;
}

/** Return how far the first index of a repository is, on which a question waits. */
function indexing(name) {
  const one = state.repositories.find((other) => other.name === name);
  return `Indexing ${name}${one?.job.running ? ` (${summary(one)})` : ""}; the answer follows`;
}

function waiting(text) {
  return h("p", { class: "waiting", role: "status" }, h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), text);
}

/** Return the button of a reference to a source, or to the lines from `start` to `end` of it. */
function citation(turn, n, start, end) {
  const cited = turn.citations.find((one) => one.n === n);
  if (!cited) return null;
  const state_ = freshnessOf(turn, n)?.state;
  const what = start ? `${cited.path}:${start === end ? start : `${start}-${end}`}` : place(cited);
  return h("button", {
    type: "button", class: `cite ${state_ ?? ""}`, title: what, "aria-label": `Source ${n}, ${what}`,
    onclick: () => openCited(turn, cited, start, end),
  }, start ? `${n}:${start}` : String(n));
}

/**
 * Open a citation, or the lines from `start` to `end` of it, at its current place; of lines that are gone, the top of
 * their file, and the lines as they were.
 */
export function openCited(turn, cited, start = cited.start_line, end = cited.end_line) {
  const check = freshnessOf(turn, cited.n);
  const isGone = check?.state === "gone";
  const now = isGone ? { path: check.path || cited.path, start_line: 1, end_line: 1 } : present(cited, check);
  const moved = now.start_line - cited.start_line;
  const lines = isGone || moved + end > now.end_line ? [now.start_line, now.end_line] : [start + moved, end + moved];
  openFile({ repository: servedName(cited.repository), path: now.path, start: lines[0], end: lines[1], check, cited, changed: changes(cited, turn, { open: isGone }) });
}

const LABELS = {
  fresh: ["Up to date", "The cited lines are unchanged"],
  moved: ["Up to date, moved", "The cited lines have moved, but are unchanged"],
  reformatted: ["Up to date, reformatted", "The code is the same, other things differ"],
  changed: ["May be out of date", "Some cited lines have changed"],
  gone: ["May be out of date", "Some cited lines were deleted"],
  unknown: ["Cannot be checked", ""],
};

/** Reasons that a label says already. */
const SAID = new Set(["the lines were deleted"]);

function badge(turn) {
  const { state: kind, reason } = turn.check.freshness;
  const stale = kind === "changed" || kind === "gone";
  const [word, what] = LABELS[kind];
  const detail = [what, SAID.has(reason) ? "" : reason].filter(Boolean).join(": ");
  return h("div", { class: `badge ${kind}` },
    h("p", { class: "badge-text" }, h("span", { class: "badge-word" }, h("i", { class: "dot", "aria-hidden": "true" }), word), " ", h("span", { class: "badge-why" }, detail)),
    h("div", { class: "badge-actions" },
      stale && h("button", { type: "button", class: "small", onclick: () => ask(turn.question) }, icon("again"), "Ask again"),
      h("button", { type: "button", class: "small", onclick: () => emit("recheck") }, icon("check"), "Re-check")));
}

function ending(turn) {
  if (turn.state === "failed") return ended(turn, turn.error);
  return h("div", { class: "after" },
    turn.state === "stopped" && ended(turn, "Stopped: the answer is not complete."),
    support(turn),
    proposals(turn),
    turn.subject && subject(turn.subject),
    chips(turn, turn.citations.filter((one) => one.used)),
    turn.notes?.map((text) => h("p", { class: "fine" }, text)),
    h("div", { class: "turn-foot" },
      h("span", { class: "fine" }, facts(turn)),
      h("div", { class: "turn-actions" },
        iconButton("copy", "Copy this answer", () => copyText(turn.answer)),
        iconButton("again", "Ask this again", () => ask(turn.question)),
        iconButton("steps", "How it was found", () => openPanel("trace")),
        iconButton("fork", "Fork the conversation here", () => forkAt(turn)),
        iconButton("bin", "Delete this turn", () => removeTurn(turn)))));
}

/** Return why a turn has no whole answer, with a button that asks again. */
function ended(turn, message) {
  return h("div", { class: `ended ${turn.state}`, role: turn.state === "failed" ? "alert" : null },
    h("span", {}, message), h("button", { type: "button", class: "small", onclick: () => ask(turn.question) }, icon("again"), "Ask again"));
}

/** Return the first of these citations as chips, and the number of the turn's other sources. */
function chips(turn, citations) {
  const shown = citations.slice(0, MAX_CHIPS);
  const more = turn.citations.length - shown.length;
  return shown.length > 0 && h("div", { class: "chips", role: "group", "aria-label": "Sources" },
    shown.map((one) => chip(turn, one)),
    more > 0 && h("button", { type: "button", class: "chip more", onclick: () => openPanel("sources") }, `+${more}`));
}

function chip(turn, cited) {
  const check = freshnessOf(turn, cited.n);
  const now = present(cited, check);
  const name = now.path.split("/").pop();
  return h("button", { type: "button", class: `chip ${check?.state ?? ""}`, title: place(now), onclick: () => openCited(turn, cited) },
    h("b", {}, String(cited.n)), h("span", {}, `${name}:${now.start_line}`));
}

/** Chips with what "it" meant: one keeps it for the next question, one draws its calls. */
function subject(about) {
  return h("div", { class: "chips", role: "group", "aria-label": "What “it” means" },
    h("button", { type: "button", class: "chip more", title: `${place(about)}: ask about this next`, onclick: () => { setAbout(about.name); focusQuestion(); } }, h("span", {}, `it = ${about.name}`)),
    about.symbol && h("button", { type: "button", class: "chip more", onclick: () => { state.callsOf = { symbol: qualified(about), path: about.path, start: about.start_line }; openPanel("calls"); } }, icon("fork"), h("span", {}, "Calls")));
}

function facts(turn) {
  const seconds = Object.values(turn.seconds ?? {}).reduce((a, b) => a + b, 0);
  const model = turn.model === "extractive" ? "quoted, no model" : turn.model;
  return [model, seconds > 0 && took(seconds), ago(turn.answered)].filter(Boolean).join(" · ");
}

async function removeTurn(turn) {
  if (!(await confirmed("Delete this turn?", `“${turn.question.slice(0, 120)}” and its answer are deleted from the conversation.`, "Delete"))) return;
  try {
    await api.removeTurn(turn.id);
  } catch (error) {
    note(error.message, "bad");
    return;
  }
  state.turns = state.turns.filter((one) => one !== turn);
  state.selected = Math.min(state.selected, state.turns.length - 1);
  emit("conversation");
  emit("selected");
}

/** Select the turn that the panel shows. */
export function select(turn) {
  const number = state.turns.indexOf(turn);
  if (number === state.selected) return;
  state.selected = number;
  emit("selected");
}

/** Select the next or the previous turn. */
export function step(by) {
  if (!state.turns.length) return;
  const number = Math.max(0, Math.min(state.turns.length - 1, state.selected + by));
  select(state.turns[number]);
  const element = byId(`turn-${state.turns[number].key}`);
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start", behavior: "smooth" });
}

function markSelected() {
  const chosen = selectedTurn();
  document.querySelectorAll(".turn").forEach((one) => one.classList.toggle("selected", one.id === `turn-${chosen?.key}`));
}
