// Creates elements without parsing HTML: content is always set as text.

const SVG = "http://www.w3.org/2000/svg";

const ICONS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M16.200 16.200L20 20",
  send: "M12 19V5M6 11l6-6l6 6",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  back: "M15 6l-6 6l6 6",
  down: "M7 10l5 5l5-5",
  sun: "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 3v1.500M12 19.500V21M3 12h1.500M19.500 12H21M5.600 5.600l1.100 1.100M17.300 17.300l1.100 1.100M18.400 5.600l-1.100 1.100M6.700 17.300l-1.100 1.100",
  moon: "M20 14.500A8 8 0 0 1 9.500 4a8 8 0 1 0 10.500 10.500",
  auto: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M12 4v16",
  book: "M7 4h7l4 4v12H7zM14 4v4h4M10 12h5M10 16h5",
  talk: "M5 6.500A1.500 1.500 0 0 1 6.500 5h11A1.500 1.500 0 0 1 19 6.500v8a1.500 1.500 0 0 1-1.500 1.500H12l-4 3.500V16H6.500A1.500 1.500 0 0 1 5 14.500zM9 9h6M9 12h3.500",
  steps: "M5 6h14M5 12h9M5 18h5",
  copy: "M9 9h10v10H9zM5 15V5h10",
  again: "M19 12a7 7 0 1 1-2-4.900M19 4v4h-4",
  fork: "M7 4.500a2 2 0 1 0 0 4a2 2 0 1 0 0-4M7 15.500a2 2 0 1 0 0 4a2 2 0 1 0 0-4M17 4.500a2 2 0 1 0 0 4a2 2 0 1 0 0-4M7 8.500v7M17 8.500c0 3.500-10 2-10 5.500",
  bin: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  pen: "M5 19l1-4L16 5l3 3L9 18z",
  save: "M12 4v11M7.500 11l4.500 4.500l4.500-4.500M5 20h14",
  help: "M9.200 9a2.800 2.800 0 1 1 4 2.600c-.8.5-1.200 1-1.200 1.900M12 17h.01",
  key: "M8 12a3 3 0 1 0 0 6a3 3 0 0 0 0-6M10.300 12.900L19 4.500M15.500 8l2.500 2.500",
  pages: "M12 7c-2-1.600-5-1.900-8-1.500V18c3-.4 6-.1 8 1.500c2-1.600 5-1.900 8-1.500V5.500c-3-.4-6-.1-8 1.500zM12 7v12.500",
  pin: "M12 4a4.500 4.500 0 0 0-2.500 8.200V15h5v-2.800A4.500 4.500 0 0 0 12 4M10 18h4M11 20.500h2",
  review: "M7 5v14M4.500 7.500L7 5l2.500 2.500M17 19V5M14.500 16.500L17 19l2.500-2.500",
  check: "M5 12.500l4.500 4.500L19 7.500",
  link: "M10 14a4 4 0 0 0 5.700 0l3-3A4 4 0 0 0 13 5.300l-1 1M14 10a4 4 0 0 0-5.700 0l-3 3A4 4 0 0 0 11 18.700l1-1",
};

/** Create an element. Properties that begin with `on` are listeners, others attributes; empty children are skipped. */
export const h = (tag, properties = {}, ...children) => filled(document.createElement(tag), properties, children);

/** Create an element of a drawing in the same way. */
export const svg = (tag, properties = {}, ...children) => filled(document.createElementNS(SVG, tag), properties, children);

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/** Return the children that are there: the platform would write the word "null" for others. */
const present = (children) => children.flat().filter((child) => child !== null && child !== undefined && child !== false);

/** Replace what an element holds; empty children are skipped. */
export const refill = (element, ...children) => element.replaceChildren(...present(children));

/** Create an icon of 24 units, hidden from screen readers. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** Create a button with an icon; its label is for screen readers and the tooltip. */
export function iconButton(name, label, onclick, properties = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...properties }, icon(name));
}

export const byId = (id) => document.getElementById(id);

/** Announce a text to screen readers. */
export function announce(text) {
  byId("status").textContent = text;
}

/** Show a message for a few seconds. */
export function note(text, kind = "plain") {
  const shown = h("div", { class: `note ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
  byId("notes").append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? 8000 : 3500);
}

/** Format a time: "just now", "5 min ago", "3 h ago", "2 d ago", then the date. */
export function ago(time) {
  if (!time) return "";
  const date = new Date(time);
  const minutes = Math.floor((Date.now() - date) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / 1440)} d ago`;
  return date.toLocaleDateString();
}

/** Format seconds: "4.9 ms", "120 ms", "2.0 s". */
export const took = (s) => (s >= 1 ? `${s.toFixed(1)} s` : `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`);

export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** Return the qualified name of a symbol. */
export const qualified = (one) => (one.scope && one.symbol ? `${one.scope}.${one.symbol}` : one.scope || one.symbol);

/** `path:3-9`, or `path:3` for one line. */
export const place = (one) => `${one.path}:${one.start_line}${one.end_line > one.start_line ? `–${one.end_line}` : ""}`;
