// The page begins here.

import { startComposer, focusQuestion } from "./composer.js";
import { begin, fromAddress, load, showSide, startConversations } from "./conversations.js";
import { byId, h, iconButton, note } from "./dom.js";
import { askForKey, showKeys } from "./dialogs.js";
import { startKeys } from "./keys.js";
import { drawMap } from "./map.js";
import { startPanel, togglePanel } from "./panel.js";
import { loadRepositories, selectRepository, startRepositories } from "./repositories.js";
import { drawSources } from "./sources.js";
import { on, state, tell } from "./state.js";
import { keep } from "./storage.js";
import { startThread } from "./thread.js";
import { drawTrace } from "./trace.js";
import { openFile } from "./viewer.js";

const THEMES = { light: ["sun", "Light; change to dark"], dark: ["moon", "Dark; change to the system's"], auto: ["auto", "As the system; change to light"] };
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
      keep("theme", next);
      const fresh = drawn();
      event.currentTarget.replaceWith(fresh);
      fresh.focus();
      tell("theme");
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
      tabButton("map", "Map", "m")),
    themeButton(),
    iconButton("help", "Keys (?)", showKeys)));
}

/** Opens a tab of the panel; its name is shown where there is room. */
function tabButton(drawing, name, key) {
  const button = iconButton(drawing, `${name} (${key})`, () => togglePanel(name.toLowerCase()));
  button.append(h("span", {}, name));
  return button;
}

/** The file that the address names, on its own: `/repos/NAME/view?path=…#L3-L9`. */
function wantedFile() {
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
    const file = wantedFile();
    if (file) {
      selectRepository(file.repository);
      document.title = `${file.path.split("/").pop()} · rag`;
      openFile(file);
    }
    await load();
    await fromAddress();
    if (!file && document.activeElement === document.body) focusQuestion(); // not from what the reader opened
  } catch (error) {
    if (error.status !== 401) note(error.message, "bad");
  }
}

startTop();
startConversations();
startThread();
startComposer();
startPanel({ sources: drawSources, trace: drawTrace, map: drawMap });
startKeys();
on("leave", begin);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("theme"));
on("key-wanted", async () => { if (await askForKey()) fill(); });
on("conversation", () => { document.title = state.conversation?.title ? `${state.conversation.title} · rag` : "rag"; });
fill();
