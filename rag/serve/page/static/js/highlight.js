// Syntax highlighting: of the HTML that highlight.js generates, only spans with a class are used.

import hljs from "../vendor/highlight.min.js";
import DOMPurify from "../vendor/purify.es.mjs";

const MAX_CHARS = 400_000;
const NAMES = {
  tsx: "typescript", vue: "xml", svelte: "xml", html: "xml", toml: "ini", make: "makefile", docker: "bash",
  sh: "bash", console: "shell", cmake: "plaintext", gradle: "java", scala: "java", dart: "java", jsonc: "json",
};
const ONLY_SPANS = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true };

/** Return the code as a fragment, highlighted if the language is known. */
export function highlighted(code, language) {
  const name = NAMES[language] ?? language;
  const plain = document.createDocumentFragment();
  if (!name || code.length > MAX_CHARS || !hljs.getLanguage(name)) {
    plain.append(code);
    return plain;
  }
  const { value } = hljs.highlight(code, { language: name, ignoreIllegals: true });
  // The outer span preserves leading whitespace, which the HTML parser would drop.
  return DOMPurify.sanitize(`<span>${value}</span>`, ONLY_SPANS);
}

/** Return one highlighted fragment per line; a span over several lines is repeated in each. */
export function highlightedLines(code, language) {
  const lines = [document.createDocumentFragment()];
  let open = [];
  const reopened = () => {
    let parent = lines.at(-1);
    open = open.map((span) => {
      const copy = span.cloneNode(false);
      parent.append(copy);
      parent = copy;
      return copy;
    });
    return parent;
  };
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      node.data.split("\n").forEach((part, n) => {
        if (n) {
          lines.push(document.createDocumentFragment());
          reopened();
        }
        if (part) (open.at(-1) ?? lines.at(-1)).append(part);
      });
      return;
    }
    if (node.nodeType === Node.ELEMENT_NODE) {
      const copy = node.cloneNode(false);
      (open.at(-1) ?? lines.at(-1)).append(copy);
      open.push(copy);
    }
    node.childNodes.forEach(walk);
    if (node.nodeType === Node.ELEMENT_NODE) open.pop();
  };
  walk(highlighted(code, language));
  return lines;
}
