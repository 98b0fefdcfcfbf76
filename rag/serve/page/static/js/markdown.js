// An answer's Markdown as elements. It is text of strangers: HTML in it is shown as text, what the parser makes
// is let through a sanitiser with a short list, and pictures become links, so that nothing is fetched.

import { Marked } from "../vendor/marked.esm.js";
import DOMPurify from "../vendor/purify.es.mjs";
import { drawDiagram } from "./diagrams.js";
import { h, iconButton, note } from "./dom.js";
import { highlighted } from "./highlight.js";

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const PURE = {
  ALLOWED_TAGS: "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td".split(" "),
  ALLOWED_ATTR: ["href", "title", "align", "start", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const LANGUAGE = /^language-([\w+#.-]{1,30})$/;
const PLACE = /^((?:[\w@.+-]+\/)*[\w@+-][\w@.+-]*):(\d+)(?:[-–](\d+))?$/;
const CITED = /\[(\d{1,3})\]/g;

DOMPurify.addHook("uponSanitizeAttribute", (element, data) => {
  // Only a code's language: no text may wear the page's own classes.
  if (data.attrName === "class" && element.tagName === "CODE" && !LANGUAGE.test(data.attrValue)) data.keepAttr = false;
  if (data.attrName === "class" && !["CODE", "SPAN"].includes(element.tagName)) data.keepAttr = false;
});

/**
 * Put an answer into an element, in place of what is there.
 *
 * `cite(n)` gives what stands for `[n]`, or null where there is no such source; `open(path, start, end)` shows a
 * place that is named as code. `whole` is false while the answer is still being written.
 */
export function showMarkdown(into, text, { cite = () => null, open = null, whole = true } = {}) {
  const fragment = DOMPurify.sanitize(marked.parse(text), PURE);
  fragment.querySelectorAll("a").forEach(outward);
  fragment.querySelectorAll("table").forEach((table) => {
    const box = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" });
    table.replaceWith(box);
    box.append(table);
  });
  fragment.querySelectorAll("pre").forEach((pre) => showBlock(pre, whole));
  if (open) fragment.querySelectorAll(":not(pre) > code").forEach((code) => linkPlace(code, open));
  linkCitations(fragment, cite);
  into.replaceChildren(fragment);
}

function outward(link) {
  if (!link.hasAttribute("href")) {
    link.replaceWith(...link.childNodes);
    return;
  }
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
}

function showBlock(pre, whole) {
  const code = pre.querySelector("code");
  if (!code) return;
  const language = LANGUAGE.exec(code.className)?.[1] ?? "";
  const text = code.textContent.replace(/\n$/, "");
  const copy = iconButton("copy", "Copy this code", () => copyText(text));
  const shown = h("pre", { tabindex: "0" }, h("code", {}, highlighted(text, language)));
  const head = h("div", { class: "block-head" }, h("span", {}, language || "text"), copy);
  const block = h("div", { class: "block" }, head, shown);
  pre.replaceWith(block);
  if (language === "mermaid" && whole) drawDiagram(text, block);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    note("Copied");
  } catch {
    note("The browser does not let the page copy; select the text instead", "bad");
  }
}

/** `path:3-9` written as code leads to the place. */
function linkPlace(code, open) {
  const found = PLACE.exec(code.textContent);
  if (!found) return;
  const [, path, start, end] = found;
  const link = h("button", { type: "button", class: "place-link", onclick: () => open(path, Number(start), Number(end ?? start)) });
  code.replaceWith(link);
  link.append(code);
}

function linkCitations(fragment, cite) {
  const texts = [];
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement?.closest("code, pre, a, button") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    const parts = [];
    let from = 0;
    for (const match of text.data.matchAll(CITED)) {
      const link = cite(Number(match[1]));
      if (!link) continue;
      parts.push(text.data.slice(from, match.index), link);
      from = match.index + match[0].length;
    }
    if (parts.length) text.replaceWith(...parts, text.data.slice(from));
  }
}
