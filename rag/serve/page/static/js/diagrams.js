// Mermaid diagrams: drawn in a frame that has no origin and no network, shown as a picture, which runs nothing.

import { h } from "./dom.js";
import { on } from "./state.js";

const PATIENCE_MS = 15_000;
const FRAME = new URL("../diagram.html", import.meta.url).href;

let frame = null;
let ready = null;
let last = 0;
const waiting = new Map();
/** Pictures by their text and theme: a turn is drawn again whenever something is known about it. */
const pictures = new Map();
const MOST_PICTURES = 60;
/** What each picture that is shown was drawn from: in another theme it is drawn anew. */
const texts = new WeakMap();

function start() {
  frame = h("iframe", { src: FRAME, sandbox: "allow-scripts", class: "unseen", tabindex: "-1", "aria-hidden": "true", title: "Draws diagrams" });
  ready = new Promise((resolve) => waiting.set("ready", resolve));
  document.body.append(frame);
}

addEventListener("message", ({ source, data }) => {
  if (!frame || source !== frame.contentWindow) return;
  const key = data.ready ? "ready" : data.id;
  waiting.get(key)?.(data);
  waiting.delete(key);
});

/** A frame that hangs is given up, with all that waits for it: the next diagram begins a new one. */
function giveUp() {
  waiting.forEach((tell) => tell({ error: "it takes too long" }));
  waiting.clear();
  frame?.remove();
  frame = null;
}

async function drawn(text) {
  if (!frame) start();
  const id = ++last;
  const timer = setTimeout(giveUp, PATIENCE_MS);
  try {
    const answer = new Promise((resolve) => waiting.set(id, resolve));
    await Promise.race([ready, answer]);
    frame?.contentWindow.postMessage({ id, text, dark: isDark() }, "*");
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The address of the picture in the theme that is shown, or why there is none. */
async function pictured(text) {
  const key = `${isDark()}\0${text}`;
  if (!pictures.has(key)) {
    const { svg, error } = await drawn(text);
    if (!svg) return { error };
    pictures.set(key, URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })));
    forgetOldest();
  }
  return { address: pictures.get(key) };
}

/** Draw a diagram in the place of its block; the block stays below it, and alone when it cannot be drawn. */
export async function drawDiagram(text, block) {
  const { address, error } = await pictured(text);
  if (error) {
    block.prepend(h("p", { class: "diagram-error" }, `This diagram cannot be drawn: ${error.split("\n")[0]}`));
    return;
  }
  const picture = h("img", { src: address, alt: `Diagram. Its source: ${text.slice(0, 300)}` });
  texts.set(picture, text);
  const shell = h("figure", { class: "diagram" }, h("div", { class: "diagram-box", tabindex: "0", role: "group", "aria-label": "Diagram" }, picture));
  block.replaceWith(shell);
  shell.append(h("details", {}, h("summary", {}, "Source of the diagram"), block));
}

on("theme", () => document.querySelectorAll(".diagram img").forEach(async (picture) => {
  const { address } = await pictured(texts.get(picture));
  if (address) picture.src = address;
}));

function forgetOldest() {
  if (pictures.size <= MOST_PICTURES) return;
  const [key, address] = pictures.entries().next().value;
  URL.revokeObjectURL(address);
  pictures.delete(key);
}
