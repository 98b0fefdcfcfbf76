// Asks a question, receives the pieces of the answer, and adds the turn.

import { api } from "./api.js";
import { announce, byId, note } from "./dom.js";
import { state, emit } from "./state.js";
import { session } from "./storage.js";

/** The minimum interval between renderings of a streamed answer; longer if rendering takes long. */
const RENDER_INTERVAL_MS = 60;
const RENDER_TIME_FACTOR = 4;
/** The pauses between attempts to reconnect: each is twice the one before. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 8000;
/** The pause before a question is sent again whose repository is still indexed; the server waits some seconds itself. */
const INDEXING_PAUSE_MS = 500;
/** The question that waits for an index, which is asked again after a reload. */
const WAITING = "waiting";
let keys = 0;

/** The states of stored turns on the page: a question that is being answered is "writing". */
const STATES = { asked: "writing", answered: "done", partial: "stopped", failed: "failed" };

/** Convert a stored turn from the server into a turn of the page. */
export const fromServer = (turn) => ({
  key: ++keys,
  state: STATES[turn.state],
  id: turn.id,
  number: turn.number,
  question: turn.question ?? "",
  standalone: turn.standalone_question,
  answer: turn.answer ?? "",
  error: turn.error,
  citations: turn.citations,
  model: turn.model,
  usage: turn.usage,
  steps: turn.trace,
  support: turn.support,
  answered: turn.answered,
  subject: turn.subject,
  notes: [],
  hits: null,
});

/** Set what "it" means in the next question; "" for what the conversation is about. */
export function setAbout(name) {
  if (name && name !== state.about) announce(`“it” means ${name}`);
  state.about = name;
  emit("about");
}

/** Ask in the open conversation. Ignored while another question is being answered. */
export async function ask(question) {
  if (state.asking || !question.trim() || !state.repository) return;
  const turn = { key: ++keys, state: "writing", question: question.trim(), answer: "", citations: [], notes: [], hits: null };
  const { conversation, repository, about, model } = state;
  const body = { question: turn.question, ...(conversation ? { conversation: conversation.id } : { repositories: [repository] }), ...(about && { about }), ...(model && { model }) };
  state.turns.push(turn);
  state.selected = state.turns.length - 1;
  const done = write(turn, (signal) => asked(turn, body, signal));
  emit("turn", turn);
  emit("selected");
  byId(`turn-${turn.key}`)?.scrollIntoView({ block: "start", behavior: "smooth" });
  await done;
}

/** Ask, again and again as long as the repository is indexed for the first time. */
async function* asked(turn, body, signal) {
  for (;;) {
    try {
      for await (const event of api.ask(body, signal)) {
        answering(turn);
        yield event;
      }
      return;
    } catch (error) {
      if (error.code !== "indexing") throw error;
      turn.indexing = state.repository;
      session.save(WAITING, JSON.stringify({ repository: state.repository, conversation: body.conversation, about: body.about, question: body.question }));
      emit("turn", turn);
      await waited(INDEXING_PAUSE_MS, signal);
    }
  }
}

/** The repository is indexed, or the question has failed. */
function answering(turn) {
  if (turn.indexing) forget();
  turn.indexing = null;
}

/** Return the question that waited for an index when the page was left, null for none. */
export const unasked = () => JSON.parse(session.saved(WAITING) ?? "null");

/** Forget the question that waited. */
export const forget = () => session.remove(WAITING);

/** Follow an answer that the server writes already: after a reload, or for a question of another client. */
export const follow = (turn) => write(turn, (signal) => api.follow(turn.id, 0, signal));

/** Stop the running answer; the server keeps what came of it. */
export async function stop() {
  const turn = state.asking;
  if (!turn) return;
  if (!turn.id) {
    turn.connection.abort("stopped");
    return;
  }
  try {
    await api.stop(turn.id);
  } catch (error) {
    note(error.message, "bad");
  }
}

/** Follow no answer any more; the server goes on with them. */
export function leave() {
  for (const turn of state.turns) turn.connection?.abort("left");
  state.asking = null;
  emit("asking");
}

/** Receive an answer until it ends, with the events that `begin` opens. */
async function write(turn, begin) {
  turn.connection = new AbortController();
  const { signal } = turn.connection;
  state.asking ??= turn;
  emit("asking");
  try {
    await receive(turn, begin(signal), signal);
  } catch (error) {
    if (signal.reason === "left") return;
    if (error.status || signal.aborted) answering(turn);
    turn.state = "failed";
    turn.error = signal.aborted ? "Stopped before the answer began." : error.message;
    if (error.quotes) Object.assign(turn, { answer: error.quotes.answer, citations: error.quotes.sources });
  }
  turn.connection = null;
  turn.reconnecting = false;
  if (state.asking === turn) state.asking = state.turns.find((one) => one.connection) ?? null;
  emit("turn", turn);
  emit("asking");
  emit("selected");
  announce({ done: "The answer is ready.", stopped: "Stopped." }[turn.state] ?? turn.error);
  emit("answered", turn);
}

/** Take events until the last one; after a lost connection continue behind the last event. */
async function receive(turn, events, signal) {
  for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(2 * pause_ms, MAX_PAUSE_MS)) {
    try {
      for await (const [name, data, number] of events) {
        if (turn.reconnecting) {
          turn.reconnecting = false;
          emit("turn", turn);
        }
        pause_ms = FIRST_PAUSE_MS;
        turn.last = number || turn.last;
        if (take(turn, name, data)) return;
      }
    } catch (error) {
      if (signal.aborted || !turn.id || error.final || (error.status && error.status < 500)) throw error;
    }
    if (!turn.id) throw new Error("The answer broke off and was not stored.");
    turn.reconnecting = true;
    emit("turn", turn);
    await waited(pause_ms, signal);
    events = api.follow(turn.id, turn.last ?? 0, signal);
  }
}

/** Wait; an abort ends it with its error. */
function waited(ms, signal) {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")), { once: true });
  });
}

/** Take one event; return whether it is the last one. */
function take(turn, name, data) {
  if (name === "asked") begun(turn, data);
  else if (name === "step") addStep(turn, data);
  else if (name === "sources") showSources(turn, data.sources);
  else if (name === "piece") addPiece(turn, data.text);
  else if (name === "answer") finish(turn, data);
  else if (name === "turn") Object.assign(turn, { ...fromServer(data), key: turn.key });
  else if (name === "error") throw Object.assign(new Error(data.error.message), { quotes: data.quotes, final: true });
  return name === "answer" || (name === "turn" && turn.state !== "writing");
}

/** The question is stored: its turn, and perhaps its conversation, has an id now. */
function begun(turn, { turn: id, conversation }) {
  turn.id = id;
  if (!state.conversation) state.conversation = { id: conversation, title: turn.question, name: "", sources: [] };
  emit("asked", turn);
}

function addStep(turn, step) {
  turn.steps = [...(turn.steps ?? []), step];
  emit("turn", turn);
}

function showSources(turn, sources) {
  turn.citations = sources;
  emit("turn", turn);
  emit("selected");
}

function addPiece(turn, text) {
  turn.answer += text;
  const began = performance.now();
  if (began < (turn.nextDrawing ?? 0)) return;
  emit("turn", turn);
  const now = performance.now();
  turn.nextDrawing = now + Math.max(RENDER_INTERVAL_MS, RENDER_TIME_FACTOR * (now - began));
}

function finish(turn, answer) {
  Object.assign(turn, {
    state: "done",
    id: answer.turn,
    number: answer.number,
    answer: answer.answer,
    standalone: answer.standalone_question,
    subject: answer.subject,
    citations: answer.sources,
    confidence: answer.confidence,
    found: answer.found,
    warning: answer.warning,
    notes: answer.notes,
    model: answer.model,
    usage: answer.usage,
    steps: answer.trace,
    support: answer.support,
    seconds: answer.seconds,
    answered: new Date().toISOString(),
  });
  setAbout("");
  if (!state.conversation) state.conversation = { id: answer.conversation, title: turn.question, name: "", sources: [] };
}
