// The trace of an answer: the searched question, the retrieval signals of each hit, and the timings.

import { api } from "./api.js";
import { h, place, qualified, refill, took } from "./dom.js";
import { selectedTurn, servedName, state } from "./state.js";
import { openFile } from "./viewer.js";

/** The retrieval signals, in the order in which they are stacked. */
const LEGS = [
  ["lexical", "Words of the question in the text"],
  ["synonym", "Synonyms of the words of the question"],
  ["dense", "Similarity of meaning"],
  ["symbol", "Words in the name of the symbol"],
  ["mention", "A file or name the question mentions"],
  ["phrase", "Words of the question in a row, or a rare name"],
  ["path", "Words in the path"],
  ["file", "Other good hits in the file"],
  ["about", "Topic of the file"],
  ["near", "Close to code discussed before"],
];

export function drawTrace(body) {
  const turn = selectedTurn();
  if (!turn || turn.state !== "done") {
    refill(body, h("p", { class: "hollow" }, "Ask a question to see how its sources were found."));
    return;
  }
  refill(body, h("p", { class: "panel-question" }, turn.question), facts(turn), hits(turn, body));
}

const percent = (share) => `${Math.round(share * 100)} %`;


function facts(turn) {
  const rows = [
    turn.standalone && turn.standalone !== turn.question && ["Searched as", turn.standalone],
    turn.confidence !== undefined && turn.confidence !== null && ["An answer is here", percent(turn.confidence.value)],
    typeof turn.confidence?.first_right === "number" && ["The first place is right", percent(turn.confidence.first_right)],
    ["Answered by", turn.model === "extractive" ? "quoting (no language model)" : turn.model || "no model: nothing was found"],
    turn.usage?.total_tokens > 0 && ["Tokens", `${turn.usage.prompt_tokens.toLocaleString("en")} in, ${turn.usage.answer_tokens.toLocaleString("en")} out${turn.usage.estimated ? " (estimated)" : ""}`],
    turn.usage?.cost_usd > 0 && ["Cost", `$${turn.usage.cost_usd.toFixed(4)}`],
    turn.seconds && ["Took", Object.entries(turn.seconds).map(([step, s]) => `${step} ${took(s)}`).join(", ")],
  ];
  return h("dl", { class: "facts" }, rows.filter(Boolean).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function hits(turn, body) {
  if (turn.hits) return ranking(turn.hits, turn);
  const box = h("div", {}, h("p", { class: "hollow" }, "Searching…"));
  const about = turn.subject?.name;
  api.search({ question: turn.standalone || turn.question, repositories: [state.repository], k: 12, ...(about && { about }) }).then(
    ({ hits: found }) => {
      turn.hits = found;
      if (body.isConnected) box.replaceWith(ranking(found, turn));
    },
    (error) => refill(box, h("p", { class: "hollow" }, error.message)));
  return box;
}

function ranking(found, turn) {
  if (!found.length) return h("p", { class: "hollow" }, "No results.");
  const sum = (hit) => Object.values(hit.legs).reduce((a, b) => a + Math.max(b, 0), 0);
  const longest = Math.max(...found.map(sum), 1e-9);
  const there = LEGS.filter(([name]) => found.some((hit) => hit.legs[name] > 0));
  return h("div", {},
    h("h3", {}, "Current search results"),
    h("ul", { class: "legend", "aria-label": "Signals" }, there.map(([name, what]) => h("li", { title: what }, h("i", { class: `leg ${name}`, "aria-hidden": "true" }), name))),
    h("ol", { class: "ranking" }, found.map((hit) => h("li", {}, row(hit, longest, there)))),
    h("details", { class: "fine meanings" }, h("summary", {}, "What the signals mean"),
      h("dl", {}, there.flatMap(([name, what]) => [h("dt", {}, name), h("dd", {}, what)]))),
    h("p", { class: "fine" }, "The bars show the signals; the score also depends on the kind of file."));
}

function row(hit, longest, there) {
  const labels = there.filter(([name]) => hit.legs[name] > 0).map(([name]) => `${name} ${hit.legs[name].toFixed(2)}`);
  const parts = there.filter(([name]) => hit.legs[name] > 0).map(([name]) => {
    const part = h("i", { class: `leg ${name}` });
    part.style.width = `${(100 * hit.legs[name]) / longest}%`;
    return part;
  });
  return h("button", { type: "button", class: "ranked", title: labels.join("\n"), onclick: () => openFile({ repository: servedName(hit.repository), path: hit.path, start: hit.start_line, end: hit.end_line }) },
    h("span", { class: "ranked-head" }, h("span", { class: "ranked-place" }, place(hit)), h("span", { class: "ranked-score" }, hit.score.toFixed(2))),
    qualified(hit) && h("code", {}, qualified(hit)),
    h("span", { class: "bar", role: "img", "aria-label": labels.join(", ") }, parts));
}
