// Mermaid diagrams: rendered in a frame without origin and network, and shown as images, which run no scripts.

import { h } from "./dom.js";
import { on } from "./state.js";

const TIMEOUT_MS = 15_000;
const FRAME = new URL("../diagram.html", import.meta.url).href;

let frame = null;
let ready = null;
let last = 0;
const waiting = new Map();
/** Images by text and theme, cached because turns are rendered repeatedly. */
const pictures = new Map();
const MAX_PICTURES = 60;
/** The least size of a wide diagram, of its own: below it is scrolled, as its words could not be read. */
const READABLE = 0.65;
/** The source of each image on the page, to render it again when the theme changes. */
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

/** Remove a frame that hangs and fail its requests; the next diagram starts a new one. */
function onTimeout() {
  waiting.forEach((resolve) => resolve({ error: "it takes too long" }));
  waiting.clear();
  frame?.remove();
  frame = null;
}

async function render(text) {
  if (!frame) start();
  const id = ++last;
  const timer = setTimeout(onTimeout, TIMEOUT_MS);
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

/** Return the URL of the image in the current theme, or an error. */
async function image(text) {
  const key = `${isDark()}\0${text}`;
  if (!pictures.has(key)) {
    const { svg, error } = await render(text);
    if (!svg) return { error };
    pictures.set(key, URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })));
    evictOldest();
  }
  return { url: pictures.get(key) };
}

/** Replace a code block by its diagram with the source below; on failure, keep the block with the error. */
export async function drawDiagram(text, block) {
  const { url, error } = await image(text);
  if (error) {
    block.prepend(h("p", { class: "diagram-error" }, `This diagram cannot be rendered: ${error.split("\n")[0]}`));
    return;
  }
  const picture = h("img", { src: url, alt: `Diagram. Its source: ${text.slice(0, 300)}` });
  texts.set(picture, text);
  picture.addEventListener("load", () => { picture.style.minWidth = `${Math.round(READABLE * picture.naturalWidth)}px`; });
  const shell = h("figure", { class: "diagram" }, h("div", { class: "diagram-box", tabindex: "0", role: "group", "aria-label": "Diagram" }, picture));
  block.replaceWith(shell);
  shell.append(h("details", {}, h("summary", {}, "Source of the diagram"), block));
}

on("theme", () => document.querySelectorAll(".diagram img").forEach(async (picture) => {
  const { url } = await image(texts.get(picture));
  if (url) picture.src = url;
}));

function evictOldest() {
  if (pictures.size <= MAX_PICTURES) return;
  const [key, url] = pictures.entries().next().value;
  URL.revokeObjectURL(url);
  pictures.delete(key);
}
