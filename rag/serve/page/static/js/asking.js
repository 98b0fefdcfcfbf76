// Asks a question, receives the pieces of the answer, and adds the turn.

import { api } from "./api.js";
import { announce, byId } from "./dom.js";
import { state, emit } from "./state.js";

/** The minimum interval between renderings of a streamed answer; longer if rendering takes long. */
const RENDER_INTERVAL_MS = 60;
const RENDER_TIME_FACTOR = 4;
let keys = 0;

/** Convert a stored turn from the server into a turn of the page. */
export const fromServer = (turn) => ({
  key: ++keys,
  state: "done",
  id: turn.id,
  number: turn.number,
  question: turn.question ?? "",
  standalone: turn.standalone_question,
  answer: turn.answer ?? "",
  citations: turn.citations,
  model: turn.model,
  usage: turn.usage,
  answered: turn.answered,
  subject: turn.subject,
  notes: turn.complete ? [] : ["This answer is incomplete."],
  hits: null,
});

/** Set what "it" means in the next question; "" for what the conversation is about. */
export function setAbout(name) {
  state.about = name;
  emit("about");
}

/** Ask in the open conversation. Ignored while another question is being answered. */
export async function ask(question) {
  if (state.asking || !question.trim() || !state.repository) return;
  const turn = { key: ++keys, state: "writing", question: question.trim(), answer: "", citations: [], notes: [], hits: null };
  state.turns.push(turn);
  state.selected = state.turns.length - 1;
  state.asking = new AbortController();
  emit("asking");
  emit("turn", turn);
  emit("selected");
  byId(`turn-${turn.key}`)?.scrollIntoView({ block: "start", behavior: "smooth" });
  try {
    await receive(turn);
  } catch (error) {
    turn.state = error.name === "AbortError" ? "stopped" : "failed";
    turn.error = error.message;
    if (error.quotes) Object.assign(turn, { answer: error.quotes.answer, citations: error.quotes.sources, hits: error.quotes.hits });
  }
  state.asking = null;
  emit("turn", turn);
  emit("asking");
  emit("selected");
  announce(turn.state === "done" ? "The answer is ready." : turn.state === "stopped" ? "Stopped." : turn.error);
  if (turn.state === "done") emit("answered", turn);
}

async function receive(turn) {
  const { conversation, repository, asking, about } = state;
  const body = { question: turn.question, ...(conversation ? { conversation: conversation.id } : { repositories: [repository] }), ...(about && { about }) };
  let next = 0;
  for await (const [name, data] of api.ask(body, asking.signal)) {
    if (name === "piece") {
      turn.answer += data.text;
      const began = performance.now();
      if (began < next) continue;
      emit("turn", turn);
      const now = performance.now();
      next = now + Math.max(RENDER_INTERVAL_MS, RENDER_TIME_FACTOR * (now - began));
    } else if (name === "answer") {
      finish(turn, data);
    } else if (name === "error") {
      throw Object.assign(new Error(data.error.message), { quotes: data.quotes });
    }
  }
  if (turn.state === "writing") throw new Error("The answer broke off and was not stored.");
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
    hits: answer.hits,
    confidence: answer.confidence,
    found: answer.found,
    warning: answer.warning,
    notes: answer.notes,
    model: answer.model,
    usage: answer.usage,
    seconds: answer.seconds,
    answered: new Date().toISOString(),
  });
  setAbout("");
  if (!state.conversation) state.conversation = { id: answer.conversation, title: turn.question, name: "", sources: [] };
}

/** Cancel the running answer. */
export function stop() {
  state.asking?.abort();
}
