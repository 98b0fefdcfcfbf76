// Asking: the question goes out, pieces come in, and in the end there is a turn.

import { api } from "./api.js";
import { announce, byId } from "./dom.js";
import { state, tell } from "./state.js";

/** Between drawings of an answer under way; a long one that takes long to draw is drawn more seldom. */
const REDRAW_MS = 60;
const REDRAW_SHARE = 4;
let keys = 0;

/** A turn as the page holds it, from what the server tells of a stored one. */
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
  notes: turn.complete ? [] : ["This answer broke off."],
  hits: null,
});

/** Ask in the open conversation. One question at a time: a second one waits for its own press of Enter. */
export async function ask(question) {
  if (state.asking || !question.trim() || !state.repository) return;
  const turn = { key: ++keys, state: "writing", question: question.trim(), answer: "", citations: [], notes: [], hits: null };
  state.turns.push(turn);
  state.selected = state.turns.length - 1;
  state.asking = new AbortController();
  tell("asking");
  tell("turn", turn);
  tell("selected");
  byId(`turn-${turn.key}`)?.scrollIntoView({ block: "start", behavior: "smooth" });
  try {
    await receive(turn);
  } catch (error) {
    turn.state = error.name === "AbortError" ? "stopped" : "failed";
    turn.error = error.message;
    if (error.quotes) Object.assign(turn, { answer: error.quotes.answer, citations: error.quotes.sources, hits: error.quotes.hits });
  }
  state.asking = null;
  tell("turn", turn);
  tell("asking");
  tell("selected");
  announce(turn.state === "done" ? "The answer is there." : turn.state === "stopped" ? "Stopped." : turn.error);
  if (turn.state === "done") tell("answered", turn);
}

async function receive(turn) {
  const { conversation, repository, asking } = state;
  const body = { question: turn.question, ...(conversation ? { conversation: conversation.id } : { repositories: [repository] }) };
  let next = 0;
  for await (const [name, data] of api.ask(body, asking.signal)) {
    if (name === "piece") {
      turn.answer += data.text;
      const began = performance.now();
      if (began < next) continue;
      tell("turn", turn);
      const now = performance.now();
      next = now + Math.max(REDRAW_MS, REDRAW_SHARE * (now - began));
    } else if (name === "answer") {
      finish(turn, data);
    } else if (name === "error") {
      throw Object.assign(new Error(data.error.message), { quotes: data.quotes });
    }
  }
  if (turn.state === "writing") throw new Error("The answer broke off; nothing of it was kept.");
}

function finish(turn, answer) {
  Object.assign(turn, {
    state: "done",
    id: answer.turn,
    number: answer.number,
    answer: answer.answer,
    standalone: answer.standalone_question,
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
  if (!state.conversation) state.conversation = { id: answer.conversation, title: turn.question, name: "", sources: [] };
}

/** End the answer under way. */
export function stop() {
  state.asking?.abort();
}
