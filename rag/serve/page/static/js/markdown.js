// Renders an answer's Markdown, which is untrusted: HTML is shown as text, the parser's output is sanitised with
// a short allow-list, and images become links, so that nothing is fetched.

import { Marked } from "../vendor/marked.esm.js";
import DOMPurify from "../vendor/purify.es.mjs";
import { drawDiagram } from "./diagrams.js";
import { h, iconButton, note, refill } from "./dom.js";
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

const SANITIZE_OPTIONS = {
  ALLOWED_TAGS: "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td".split(" "),
  ALLOWED_ATTR: ["href", "title", "align", "start", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const LANGUAGE = /^language-([\w+#.-]{1,30})$/;
const PLACE = /^((?:[\w@.+-]+\/)*[\w@+-][\w@.+-]*):(\d+)(?:[-–](\d+))?$/;
/** Numbers of sources, each with lines or without: `[1]`, `[1:37]`, `[1:37-40, 2]`. */
const CITED = /\[(\d{1,3}(?::\d{1,7}(?:-\d{1,7})?)?(?:, \d{1,3}(?::\d{1,7}(?:-\d{1,7})?)?)*)\]/g;
/** Where a mark belongs, while the text is parsed. Punctuation, and behind a space: it changes no emphasis or link before it. */
const MARKED = /\s?⸢(\d+)⸣/g;
const MARK_SIGNS = /[⸢⸣]/;

DOMPurify.addHook("uponSanitizeAttribute", (element, data) => {
  // Allow only the language class of code, so that no text can use the page's own classes.
  if (data.attrName === "class" && element.tagName === "CODE" && !LANGUAGE.test(data.attrValue)) data.keepAttr = false;
  if (data.attrName === "class" && !["CODE", "SPAN"].includes(element.tagName)) data.keepAttr = false;
});

/**
 * Replace the content of an element by a rendered answer.
 *
 * `cite(n, start, end)` returns the element for `[n]` or `[n:start-end]`, or null if there is no such source; `open(path, start, end)` opens a
 * place that is named in code. `whole` is false while the answer is still streamed. Each of `marks` is
 * `{at, element}`: `element()` is put behind the first `at` code points of the text, in their order. A text
 * that has the signs of marks itself gets none. `internal(href)` returns what a link to `/repos/` on this server
 * does in the page, or null; without it there are no such links.
 */
export function showMarkdown(into, text, { cite = () => null, open = null, whole = true, marks = [], internal = null } = {}) {
  const placed = MARK_SIGNS.test(text) ? [] : marks;
  const options = internal ? { ...SANITIZE_OPTIONS, ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/repos\/)/i } : SANITIZE_OPTIONS;
  const fragment = DOMPurify.sanitize(marked.parse(withMarks(text, placed)), options);
  if (placed.length) placeMarks(fragment, placed);
  fragment.querySelectorAll("a").forEach((link) => makeLink(link, internal));
  fragment.querySelectorAll("table").forEach((table) => {
    const box = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" });
    table.replaceWith(box);
    box.append(table);
  });
  fragment.querySelectorAll("pre").forEach((pre) => showBlock(pre, whole));
  if (open) fragment.querySelectorAll(":not(pre) > code").forEach((code) => linkPlace(code, open));
  linkCitations(fragment, cite);
  refill(into, fragment);
}

const INLINE_OPTIONS = { ALLOWED_TAGS: ["code", "em", "strong"], ALLOWED_ATTR: [], RETURN_DOM_FRAGMENT: true };

/** Return one line of Markdown as a fragment without links. */
export const inlineMarkdown = (text) => DOMPurify.sanitize(marked.parseInline(text), INLINE_OPTIONS);

/** Write the number of each mark into the text. */
function withMarks(text, marks) {
  const characters = Array.from(text);
  const parts = [];
  let from = 0;
  marks.forEach(({ at }, number) => {
    parts.push(characters.slice(from, Math.max(at, from)).join(""), ` ⸢${number}⸣`);
    from = Math.max(at, from);
  });
  return parts.join("") + characters.slice(from).join("");
}

/** Replace the numbers by their elements: behind code, not in it. */
function placeMarks(fragment, marks) {
  const texts = textsOf(fragment, () => true).filter((text) => text.data.match(MARKED));
  for (const text of texts) {
    const outside = text.parentElement?.closest("pre, code, a");
    const found = [...text.data.matchAll(MARKED)].filter(([, number]) => marks[number]);
    const elements = found.map(([, number]) => marks[number].element());
    if (outside) {
      text.data = text.data.replace(MARKED, "");
      outside.after(...elements);
      continue;
    }
    const parts = [];
    let from = 0;
    found.forEach((match, n) => {
      parts.push(text.data.slice(from, match.index), elements[n]);
      from = match.index + match[0].length;
    });
    text.replaceWith(...parts, text.data.slice(from));
  }
}

/** Return the text nodes whose parent is accepted. */
function textsOf(fragment, accepts) {
  const texts = [];
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (accepts(walker.currentNode.parentElement)) texts.push(walker.currentNode);
  return texts;
}

/** Let a link open in the page, or as a foreign address in a tab of its own. */
function makeLink(link, internal) {
  const href = link.getAttribute("href");
  if (!href) {
    link.replaceWith(...link.childNodes);
    return;
  }
  const act = href.startsWith("/repos/") ? internal?.(href) : null;
  if (act) {
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      act();
    });
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
    note("The browser denied access to the clipboard; select the text and copy it", "bad");
  }
}

/** Turn code such as `path:3-9` into a link to the place. */
function linkPlace(code, open) {
  const found = PLACE.exec(code.textContent);
  if (!found) return;
  const [, path, start, end] = found;
  const link = h("button", { type: "button", class: "place-link", onclick: () => open(path, Number(start), Number(end ?? start)) });
  code.replaceWith(link);
  link.append(code);
}

function linkCitations(fragment, cite) {
  const texts = textsOf(fragment, (parent) => !parent?.closest("code, pre, a, button"));
  for (const text of texts) {
    const parts = [];
    let from = 0;
    for (const match of text.data.matchAll(CITED)) {
      const links = match[1].split(", ").map((one) => {
        const [n, start, end] = one.split(/[:-]/).map(Number);
        return cite(n, start, end ?? start);
      });
      if (links.includes(null)) continue;
      parts.push(text.data.slice(from, match.index), ...links);
      from = match.index + match[0].length;
    }
    if (parts.length) text.replaceWith(...parts, text.data.slice(from));
  }
}
