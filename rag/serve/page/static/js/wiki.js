// The wiki of the selected repository: its pages, and one page with a question about it.

import { api } from "./api.js";
import { askAbout } from "./ask-about.js";
import { h, icon, iconButton, plural, refill } from "./dom.js";
import { copyText, inlineMarkdown, showMarkdown } from "./markdown.js";
import { ROOT, on, state } from "./state.js";
import { openFile } from "./viewer.js";

/** The pages of the last repository: its name and the list that the server gives. */
let known = { repository: null, wiki: null };
let calls = 0;
on("indexed", () => { known = { repository: null, wiki: null }; });

export async function drawWiki(body) {
  const call = ++calls;
  const repository = state.repository;
  if (!repository) return;
  if (state.wiki?.repository !== repository) state.wiki = { repository, page: null };
  refill(body, h("p", { class: "hollow" }, "Reading the code…"));
  const isCurrent = () => call === calls && body.isConnected;
  try {
    if (known.repository !== repository) known = { repository, wiki: api.wiki(repository) };
    const wiki = await known.wiki;
    if (!isCurrent()) return;
    if (state.wiki.page === null) contents(body, wiki);
    else {
      const page = await api.wikiPage(repository, state.wiki.page);
      if (isCurrent()) show(body, wiki, page, repository);
    }
  } catch (error) {
    known = { repository: null, wiki: null };
    if (isCurrent()) refill(body, back(body), h("p", { class: "hollow", role: "alert" }, error.message));
  }
}

/** Show a page, or with null the list of pages. */
function go(body, page) {
  state.wiki = { repository: state.repository, page };
  body.scrollTop = 0;
  body.focus({ preventScroll: true });
  drawWiki(body);
}

const back = (body) => (state.wiki?.page ? h("button", { type: "button", class: "small", onclick: () => go(body, null) }, icon("back"), "All pages") : "");

function contents(body, wiki) {
  const parts = new Map();
  for (const page of wiki.pages) parts.set(page.parent, [...(parts.get(page.parent) ?? []), page]);
  const list = (pages) => h("ul", {}, pages.map((page) => h("li", {},
    h("button", { type: "button", class: "wiki-entry", onclick: () => go(body, page.id) }, h("b", {}, page.title), page.description && h("span", { class: "fine" }, inlineMarkdown(page.description))),
    parts.has(page.id) && list(parts.get(page.id)))));
  refill(body,
    h("h2", { class: "wiki-title" }, `Wiki of ${state.repository}`),
    h("p", { class: "fine" }, `${plural(wiki.pages.length, "page")}, written from the code${wiki.commit ? ` at ${wiki.commit.slice(0, 7)}` : ""}, without a model.`),
    h("nav", { class: "wiki-contents", "aria-label": "Pages of the wiki" }, list(parts.get("") ?? wiki.pages)));
}

function show(body, wiki, page, repository) {
  const number = wiki.pages.findIndex((one) => one.id === page.id);
  const text = h("div", { class: "answer wiki-page" });
  showMarkdown(text, page.text, { internal: (href) => inPage(body, href, repository) });
  const step = (by, label) => {
    const other = wiki.pages[number + by];
    return other ? h("button", { type: "button", class: "small", onclick: () => go(body, other.id) }, `${label}: ${other.title}`) : h("span");
  };
  refill(body,
    h("div", { class: "wiki-head" }, back(body),
      h("span", { class: "wiki-actions" },
        h("button", { type: "button", class: "small", onclick: () => askAbout(questionOf(page)) }, icon("talk"), "Ask about this"),
        iconButton("link", "Copy a link to this page", () => copyText(new URL(wikiUrl(repository, page.id), location.href).href)))),
    text,
    h("nav", { class: "wiki-steps", "aria-label": "Neighbouring pages" }, step(-1, "Before"), step(1, "Next")));
}

/** A page about few files is about the first one; others are named in the question. */
const questionOf = (page) => (page.kind === "package" && page.paths.length ? { about: page.paths[0] } : { text: `About “${page.title}”: ` });

/** Return what a link to this server does in the page: it opens lines or a page; null for other links. */
function inPage(body, href, repository) {
  const url = new URL(href, location.origin);
  const page = url.searchParams.get("page");
  if (url.pathname.endsWith("/wiki") && page) return () => go(body, page);
  const path = url.searchParams.get("path");
  const [, start, end] = /^#L(\d+)-L(\d+)$/.exec(url.hash) ?? [];
  return url.pathname.endsWith("/view") && path && start ? () => openFile({ repository, path, start: Number(start), end: Number(end) }) : null;
}

/** Return the URL of a page of a wiki on this page. */
const wikiUrl = (repository, page) => `${ROOT}/repos/${repository.split("/").map(encodeURIComponent).join("/")}/wiki?${new URLSearchParams({ page })}`;
