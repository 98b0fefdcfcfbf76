// Shows a file of the index at given lines, with syntax highlighting.

import { api } from "./api.js";
import { askAbout } from "./ask-about.js";
import { h, iconButton, plural, refill } from "./dom.js";
import { highlightedLines } from "./highlight.js";
import { copyText } from "./markdown.js";
import { closePanel, fillPanel, lastOpenTab, openPanel } from "./panel.js";
import { ROOT, state } from "./state.js";

/** The number of lines to load around the requested ones. */
const WINDOW = 1500;

const NOTICES = {
  moved: (check) => `These lines have moved since the answer; they were at ${check.was}.`,
  reformatted: (check) => `Only the ${check.reason} of these lines differ${check.reason === "layout" ? "s" : ""} since the answer; they were at ${check.was}.`,
  changed: (check) => `The cited lines have changed since the answer${check.reason ? ` (${check.reason})` : ""}.`,
  gone: (check) => (check.reason === "the file was removed" ? "The cited file was removed." : "The cited lines were deleted."),
  unknown: (check) => `Cannot check whether these lines have changed: ${check.reason}.`,
};

/** The tabs to which the button leads back; from others it leads to the sources. */
const BACK = new Set(["calls", "search", "wiki", "facts", "review"]);

let opened = 0;

/**
 * Show lines of a file in the panel. `check` and `cited` describe how they have changed since the citation, and
 * `changed` shows it.
 */
export async function openFile({ repository, path, start, end, check = null, cited = null, changed = "" }) {
  const call = ++opened;
  const body = h("div", { class: "file-body", tabindex: "0", role: "region", "aria-label": path }, h("p", { class: "hollow" }, "Opening…"));
  fillPanel("file", head(repository, path, start, end), notice(check, cited) ?? "", changed, body);
  body.focus({ preventScroll: true });  // so that the keyboard scrolls its lines
  try {
    const from = Math.max(1, start - WINDOW / 2);
    const file = await api.source(repository, path, from, Math.max(from + WINDOW, end));
    if (call === opened) show(body, file, { start, end, isLit: check?.state !== "gone" }, repository);
  } catch (error) {
    const message = check?.state === "gone" ? "There is no such file any more." : error.message;
    if (call === opened) refill(body, h("p", { class: "hollow", role: "alert" }, message));
  }
}

function head(repository, path, start, end) {
  const slash = path.lastIndexOf("/") + 1;
  const tab = BACK.has(lastOpenTab()) ? lastOpenTab() : state.turns.length ? "sources" : null;
  const back = tab && iconButton("back", `Back to the ${tab}`, () => openPanel(tab));
  return h("div", { class: "panel-head file-head" }, back,
    h("div", { class: "file-name", title: path }, h("span", { class: "folder" }, h("bdi", {}, path.slice(0, slash))), h("b", {}, path.slice(slash))),
    h("div", { class: "file-actions" },
      h("button", { type: "button", class: "small", onclick: () => askAbout({ text: `In \`${path}:${start}-${end}\`: ` }) }, "Ask about this"),
      iconButton("fork", "Calls of these lines", () => { state.callsOf = { path, start, end }; openPanel("calls"); }),
      iconButton("link", "Copy a link to these lines", () => copyText(new URL(fileUrl(repository, path, start, end), location.href).href)),
      iconButton("close", "Close the file", closePanel)));
}

/** Return the URL of lines on this page. */
export function fileUrl(repository, path, start, end) {
  const name = repository.split("/").map(encodeURIComponent).join("/");
  return `${ROOT}/repos/${name}/view?${new URLSearchParams({ path })}#L${start}-L${end}`;
}

function notice(check, cited) {
  if (!check || !NOTICES[check.state]) return null;
  const was = cited ? `${cited.path}:${cited.start_line}–${cited.end_line}` : "";
  return h("p", { class: `file-notice ${check.state}` }, NOTICES[check.state]({ ...check, was }));
}

function show(body, file, wanted, repository) {
  const first = file.start_line;
  const last = file.end_line;
  const list = h("ol", { class: "lines-list" });
  const lines = highlightedLines(file.text.replace(/\n$/, ""), file.language);
  list.append(...lines.map((line, n) => {
    const number = first + n;
    const lit = wanted.isLit && number >= wanted.start && number <= wanted.end;
    return h("li", { class: lit ? "lit" : null, id: `L${number}`, data: { n: number } }, h("code", {}, line));
  }));
  const more = (label, from, to) => h("button", { type: "button", class: "small more-lines", onclick: async () => {
    const other = await api.source(repository, file.path, from, to);
    const joined = from < first ? other.text + file.text : file.text + other.text;
    show(body, { ...file, start_line: Math.min(first, other.start_line), end_line: Math.max(last, other.end_line), text: joined }, wanted, repository);
  } }, label);
  refill(body,
    h("p", { class: "fine file-facts" }, [plural(file.lines, "line"), file.language, file.commit && `at ${file.commit.slice(0, 7)}${file.dirty ? " + changes" : ""}`].filter(Boolean).join(" · ")),
    first > 1 ? more(`Lines ${Math.max(1, first - WINDOW)}–${first - 1}`, Math.max(1, first - WINDOW), first - 1) : "",
    list,
    last < file.lines ? more(`Lines ${last + 1}–${Math.min(file.lines, last + WINDOW)}`, last + 1, Math.min(file.lines, last + WINDOW)) : "");
  list.classList.toggle("wide-numbers", last > 9999);
  body.querySelector(`#L${wanted.start}`)?.scrollIntoView({ block: wanted.end - wanted.start > 20 ? "start" : "center" });
}
