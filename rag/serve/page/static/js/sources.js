// The sources of the selected turn, each with a preview.

import { api } from "./api.js";
import { changes } from "./changes.js";
import { h, place, qualified, refill } from "./dom.js";
import { highlighted } from "./highlight.js";
import { freshnessOf, on, present, selectedTurn, servedName, state } from "./state.js";
import { dedented } from "./text.js";
import { openCited } from "./thread.js";

const PREVIEW_LINES = 7;
const MAX_PREVIEWS = 12;
const known = new Map();
on("indexed", () => known.clear());

export function drawSources(body) {
  const turn = selectedTurn();
  if (!turn?.citations.length) {
    const message = { writing: "Sources appear as soon as they are found.", done: "This answer has no sources." }[turn?.state] ?? "There is no answer, so it has no sources.";
    refill(body, h("p", { class: "hollow" }, turn ? message : "Ask a question to see the lines that the answer is based on."));
    return;
  }
  const used = turn.citations.filter((one) => one.used);
  const rest = turn.citations.filter((one) => !one.used);
  refill(body,
    h("p", { class: "panel-question" }, turn.question),
    list("Cited", used, turn),
    list(used.length ? "Shown to the model, not cited" : "Shown to the model", rest, turn));
}

function list(title, citations, turn) {
  if (!citations.length) return "";
  return h("section", { class: "source-list" }, h("h3", {}, title),
    h("ol", {}, citations.map((one, number) => h("li", {}, card(one, turn, number < MAX_PREVIEWS), changes(one, turn)))));
}

function card(cited, turn, preview) {
  const check = freshnessOf(turn, cited.n);
  const now = present(cited, check);
  const slash = now.path.lastIndexOf("/") + 1;
  const code = h("pre", { class: "preview", "aria-hidden": "true" });
  const element = h("button", { type: "button", class: `source ${check?.state ?? ""}`, onclick: () => openCited(turn, cited) },
    h("span", { class: "source-head" },
      h("span", { class: "unseen" }, "Open source "),
      h("b", { class: "source-n" }, String(cited.n)),
      h("span", { class: "source-path" }, h("span", { class: "folder" }, now.path.slice(0, slash)), h("span", {}, now.path.slice(slash)), h("span", { class: "lines" }, place(now).slice(now.path.length)))),
    h("span", { class: "source-about" },
      cited.symbol && h("code", {}, qualified(cited)),
      cited.commit && h("span", { class: "fine" }, `at ${cited.commit.slice(0, 7)}${cited.dirty ? " + changes" : ""}`),
      check && check.state !== "fresh" && h("span", { class: `state ${check.state}` }, check.state)),
    code);
  if (preview && check?.state !== "gone") fill(code, now);
  else code.remove();
  return element;
}

async function fill(code, cited) {
  const name = servedName(cited.repository);
  const end = Math.min(cited.end_line, cited.start_line + PREVIEW_LINES - 1);
  const key = [name, cited.path, cited.start_line, end].join("\0");
  try {
    if (!known.has(key)) known.set(key, api.source(name, cited.path, cited.start_line, end));
    const { text, language } = await known.get(key);
    refill(code, highlighted(dedented(text), language));
  } catch {
    known.delete(key);
    code.remove();
  }
}
