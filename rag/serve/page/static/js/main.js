// The entry point of the page.

import { ask, forget, unasked } from "./asking.js";
import { askAbout } from "./ask-about.js";
import { drawCallsTab } from "./calls.js";
import { startComposer, focusQuestion } from "./composer.js";
import { begin, fromUrl, load, showSide, startConversations } from "./conversations.js";
import { byId, h, iconButton, note } from "./dom.js";
import { askForKey, showKeys } from "./dialogs.js";
import { drawFacts, startFactList } from "./fact-list.js";
import { startFacts } from "./facts.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { loadModels, startModels } from "./models.js";
import { openPanel, startPanel, togglePanel } from "./panel.js";
import { loadRepositories, selectRepository, startRepositories } from "./repositories.js";
import { drawReview } from "./review.js";
import { drawSearch } from "./search.js";
import { drawSources } from "./sources.js";
import { ROOT, on, state, emit } from "./state.js";
import { save } from "./storage.js";
import { startThread } from "./thread.js";
import { drawTrace } from "./trace.js";
import { openFile } from "./viewer.js";
import { drawWiki } from "./wiki.js";

const THEMES = { light: ["sun", "Light; switch to dark"], dark: ["moon", "Dark; switch to system"], auto: ["auto", "System; switch to light"] };
const MAX_ABOUT = 500;
const NEXT = { light: "dark", dark: "auto", auto: "light" };

function themeButton() {
  const root = document.documentElement;
  const drawn = () => {
    const now = root.dataset.theme ?? "auto";
    const [drawing, label] = THEMES[now];
    return iconButton(drawing, `Theme: ${label}`, (event) => {
      const next = NEXT[now];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      save("theme", next);
      const fresh = drawn();
      event.currentTarget.replaceWith(fresh);
      fresh.focus();
      emit("theme");
    });
  };
  return drawn();
}

function startTop() {
  byId("top").append(iconButton("menu", "Conversations", () => showSide(true), { class: "icon-button only-narrow" }));
  startRepositories();
  byId("top").append(h("div", { class: "top-actions" },
    h("div", { class: "group" },
      tabButton("book", "Sources", "s"),
      tabButton("steps", "Trace", "t"),
      tabButton("fork", "Calls", "g"),
      tabButton("search", "Search", "c"),
      tabButton("pages", "Wiki", "w")),
    themeButton(),
    iconButton("help", "Keyboard shortcuts (?)", showKeys)));
}

/** Create a button that opens a tab of the panel; its name is shown if there is room. */
function tabButton(drawing, name, key) {
  const button = iconButton(drawing, `${name} (${key})`, () => togglePanel(name.toLowerCase()));
  button.append(h("span", {}, name));
  return button;
}

/** Return what the URL names: lines of a file (`/repos/NAME/view?path=…#L3-L9`) or a page (`/repos/NAME/wiki?page=…`). */
function placeOfUrl() {
  const [, name, kind] = /^\/repos\/(.+)\/(view|wiki)$/.exec(location.pathname.slice(ROOT.length)) ?? [];
  if (!name) return null;
  const asked = new URLSearchParams(location.search);
  const repository = name.split("/").map(decodeURIComponent).join("/");
  if (kind === "wiki") return { repository, page: asked.get("page") };
  const path = asked.get("path");
  const [, start, end] = /^#L(\d+)(?:-L(\d+))?/.exec(location.hash) ?? [];
  return path ? { repository, path, start: Number(start ?? 1), end: Number(end ?? start ?? 1) } : null;
}

function openPlace(place) {
  selectRepository(place.repository);
  document.title = `${place.path?.split("/").pop() ?? place.page ?? "Wiki"} · rag`;
  if (place.path) {
    openFile(place);
    return;
  }
  state.wiki = { repository: place.repository, page: place.page };
  openPanel("wiki");
}

/** Begin the question that a link from elsewhere names: `/?repository=NAME&about=DEFINITION&question=TEXT`. */
function beginOfUrl() {
  const asked = new URLSearchParams(location.search);
  const [repository, about, text] = ["repository", "about", "question"].map((name) => asked.get(name) ?? "");
  if (repository) selectRepository(repository);
  if (about || text) askAbout({ about: about.slice(0, MAX_ABOUT), text });
}

/** Ask the question that waited for the first index when the page was left. */
function askAgain(waiting) {
  if (!waiting) return;
  forget();
  if (waiting.conversation !== state.conversation?.id) return;
  selectRepository(waiting.repository);
  state.about = waiting.about ?? "";
  ask(waiting.question);
}

async function fill() {
  try {
    const waiting = unasked(); // now: one that is asked while the page is loading is not left over
    await Promise.all([loadRepositories(), loadModels()]);
    const place = placeOfUrl();
    if (place) openPlace(place);
    else beginOfUrl();
    await load();
    await fromUrl();
    startLive();
    askAgain(waiting);
  } catch (error) {
    if (error.status !== 401) note(error.message, "bad");
  }
}

startTop();
startConversations();
startThread();
startFacts();
startFactList();
startComposer();
startModels();
startPanel({ sources: drawSources, trace: drawTrace, calls: drawCallsTab, search: drawSearch, wiki: drawWiki, facts: drawFacts, review: drawReview });
startKeys();
on("leave", begin);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => emit("theme"));
on("key-required", async () => { if (await askForKey()) fill(); });
for (const event of ["conversation", "repositories"]) on(event, () => { if (!placeOfUrl()) document.title = [state.conversation?.title, state.repository, "rag"].filter(Boolean).join(" · "); });
if (!placeOfUrl()) focusQuestion(); // before anything is loaded: later it would take the focus from what was opened since
fill();
