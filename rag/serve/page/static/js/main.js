// The entry point of the page.

import { startComposer, focusQuestion } from "./composer.js";
import { begin, fromUrl, load, showSide, startConversations } from "./conversations.js";
import { byId, h, iconButton, note } from "./dom.js";
import { askForKey, showKeys } from "./dialogs.js";
import { startFacts } from "./facts.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { drawMap } from "./map.js";
import { startPanel, togglePanel } from "./panel.js";
import { loadRepositories, selectRepository, startRepositories } from "./repositories.js";
import { drawReview } from "./review.js";
import { drawSearch } from "./search.js";
import { drawSources } from "./sources.js";
import { on, state, emit } from "./state.js";
import { save } from "./storage.js";
import { startThread } from "./thread.js";
import { drawTrace } from "./trace.js";
import { openFile } from "./viewer.js";

const THEMES = { light: ["sun", "Light; switch to dark"], dark: ["moon", "Dark; switch to system"], auto: ["auto", "System; switch to light"] };
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
      tabButton("map", "Map", "m"),
      tabButton("search", "Search", "c")),
    themeButton(),
    iconButton("help", "Keyboard shortcuts (?)", showKeys)));
}

/** Create a button that opens a tab of the panel; its name is shown if there is room. */
function tabButton(drawing, name, key) {
  const button = iconButton(drawing, `${name} (${key})`, () => togglePanel(name.toLowerCase()));
  button.append(h("span", {}, name));
  return button;
}

/** Return the file that the URL names: `/repos/NAME/view?path=…#L3-L9`. */
function fileOfUrl() {
  const named = /^\/repos\/(.+)\/view$/.exec(location.pathname);
  const path = new URLSearchParams(location.search).get("path");
  if (!named || !path) return null;
  const [, start, end] = /^#L(\d+)(?:-L(\d+))?/.exec(location.hash) ?? [];
  const name = named[1].split("/").map(decodeURIComponent).join("/");
  return { repository: name, path, start: Number(start ?? 1), end: Number(end ?? start ?? 1) };
}

async function fill() {
  try {
    await loadRepositories();
    const file = fileOfUrl();
    if (file) {
      selectRepository(file.repository);
      document.title = `${file.path.split("/").pop()} · rag`;
      openFile(file);
    }
    await load();
    await fromUrl();
    startLive();
  } catch (error) {
    if (error.status !== 401) note(error.message, "bad");
  }
}

startTop();
startConversations();
startThread();
startFacts();
startComposer();
startPanel({ sources: drawSources, trace: drawTrace, map: drawMap, search: drawSearch, review: drawReview });
startKeys();
on("leave", begin);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => emit("theme"));
on("key-required", async () => { if (await askForKey()) fill(); });
on("conversation", () => { document.title = state.conversation?.title ? `${state.conversation.title} · rag` : "rag"; });
if (!fileOfUrl()) focusQuestion(); // before anything is loaded: later it would take the focus from what was opened since
fill();
