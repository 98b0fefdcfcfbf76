// Which model answers: its name below the question, a choice if the server offers several, else how to connect one.

import { api } from "./api.js";
import { byId, h, refill } from "./dom.js";
import { on, state, emit } from "./state.js";
import { save, saved } from "./storage.js";

let line;

export function startModels() {
  line = h("p", { class: "fine model" });
  byId("foot").append(line);
  for (const event of ["models", "conversation", "turn"]) on(event, draw);
}

export async function loadModels() {
  state.models = await api.models();
  const before = saved("model");
  state.model = state.models.includes(before) ? before : null;
  emit("models");
}

function draw() {
  const { models, turns } = state;
  if (!models) return;
  if (models.length > 1) {
    if (!line.querySelector("select")) refill(line, h("label", {}, "Answers by ", picker(models)));
  } else if (models.length) refill(line, `Answers by ${models[0]}`);
  else refill(line, ...(turns.length > 1 ? [] : ["To have answers explained, connect a model with ", h("code", {}, "rag setup"), " and restart the server"]));
}

function picker(models) {
  const select = h("select", { onchange: () => choose(select.value) }, models.map((name) => h("option", { value: name }, name)));
  select.value = state.model ?? models[0];
  return select;
}

function choose(name) {
  state.model = name;
  save("model", name);
}
