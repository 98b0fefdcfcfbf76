// The list of conversations: search, open, rename, fork, export and delete.

import { api } from "./api.js";
import { follow, fromServer, leave } from "./asking.js";
import { focusQuestion } from "./composer.js";
import { confirmed, typedText } from "./dialogs.js";
import { ago, byId, h, icon, iconButton, note, plural, refill } from "./dom.js";
import { openMenu } from "./menus.js";
import { closePanel } from "./panel.js";
import { updateIndex, selectRepository } from "./repositories.js";
import { ROOT, on, state, emit } from "./state.js";

const SEARCH_DELAY_MS = 200;
const SNIPPET = { before: 24, max: 110 };
/** On narrow screens the list covers the page and has to be opened. */
const NARROW = matchMedia("(max-width: 1100px)");
let list;
let field;
let timer = 0;

export function startConversations() {
  list = h("ul", { class: "conversations" });
  field = h("input", { type: "search", class: "text", id: "find", placeholder: "Search conversations", "aria-label": "Search conversations", oninput: () => { clearTimeout(timer); timer = setTimeout(search, SEARCH_DELAY_MS); } });
  refill(byId("side"),
    h("div", { class: "brand" }, h("span", { class: "brand-mark", "aria-hidden": "true" }, icon("talk")), h("b", {}, "rag"), iconButton("close", "Close the list", () => showSide(false), { class: "icon-button only-narrow" })),
    h("button", { type: "button", class: "new", onclick: begin }, icon("plus"), "New conversation"),
    h("div", { class: "find" }, icon("search"), field),
    list);
  byId("veil").addEventListener("click", () => showSide(false));
  on("asked", load);
  on("answered", load);
  on("recheck", () => check(true));
  on("conversation", draw);
  addEventListener("hashchange", fromUrl);
}

export function showSide(wanted) {
  byId("app").classList.toggle("side-open", wanted);
  byId("veil").hidden = !wanted;
}

export const focusSearch = () => { showSide(NARROW.matches); field.focus(); };

/** Reload the list. The URL names the open conversation at once, so that a reload opens it. */
export async function load() {
  if (state.conversation && fragment() !== state.conversation.id) history.replaceState(null, "", `#c=${state.conversation.id}`);
  state.conversations = await api.conversations();
  const known = state.conversations.find((one) => one.id === state.conversation?.id);
  if (known) state.conversation = known;
  draw();
}

function draw(found = null) {
  const rows = Array.isArray(found) ? found : state.conversations;
  if (!rows.length) {
    refill(list, h("li", { class: "hollow" }, found ? "No results." : "Your conversations appear here."));
    return;
  }
  refill(list, ...rows.map(row));
}

function row(one) {
  const current = one.id === state.conversation?.id;
  const about = one.sources.map((source) => source.name ?? source.location.split("/").pop()).join(", ");
  const more = iconButton("more", `More about ${one.title || "this conversation"}`, () => menu(more, one), { "aria-haspopup": "menu", "aria-expanded": "false" });
  return h("li", { class: current ? "current" : null },
    h("button", { type: "button", class: "conversation", "aria-current": current ? "true" : null, onclick: () => open(one.id) },
      h("span", { class: "conversation-title" }, one.title || "Untitled"),
      h("span", { class: "fine" }, [about, one.parent && "fork", plural(one.turn_count, "turn"), ago(one.updated)].filter(Boolean).join(" · ")),
      one.match && h("span", { class: "fine match" }, one.match)),
    more);
}

function menu(button, one) {
  openMenu(button, [
    ["pen", "Rename", () => rename(one)],
    ["fork", "Fork", () => fork(one)],
    ["save", "Export", () => download(one)],
    ["bin", "Delete", () => remove(one), "danger"],
  ]);
}

async function search() {
  const words = field.value.trim();
  if (!words) {
    draw();
    return;
  }
  const named = state.conversations.filter((one) => one.title.toLowerCase().includes(words.toLowerCase()));
  const found = new Map(named.map((one) => [one.id, one]));
  try {
    for (const turn of await api.turnsWith(words)) {
      const one = state.conversations.find((other) => other.id === turn.conversation);
      if (one && !found.has(one.id)) found.set(one.id, { ...one, match: matching(turn, words, one.title) });
    }
  } catch (error) {
    note(error.message, "bad");
  }
  if (field.value.trim() === words) draw([...found.values()]);
}

/** Return the matching text of a turn: its question if that is not the title, else a snippet of its answer. */
function matching(turn, words, title) {
  const wanted = words.toLowerCase().split(/\s+/);
  const at = (text) => wanted.map((one) => text.toLowerCase().indexOf(one)).find((n) => n >= 0) ?? -1;
  const question = turn.question ?? "";
  const answer = (turn.answer ?? "").replace(/[`*#|]+/g, "").replace(/\s+/g, " ");
  const place = at(answer);
  if (place < 0 || (question !== title && at(question) >= 0)) return question === title ? "" : question;
  const start = place > SNIPPET.before ? answer.indexOf(" ", place - SNIPPET.before) + 1 : 0;
  return `${start > 0 ? "…" : ""}${answer.slice(start, start + SNIPPET.max)}`;
}

/** Close the open conversation; the next question starts a new one. */
export function begin() {
  leave();
  state.conversation = null;
  state.turns = [];
  state.selected = -1;
  history.pushState(null, "", location.pathname === `${ROOT}/` ? "#" : `${ROOT}/#`);
  closePanel();
  emit("conversation");
  showSide(false);
  focusQuestion();
}

/** Open a conversation at its last turn. */
export async function open(id) {
  let one;
  try {
    one = await api.conversation(id);
  } catch (error) {
    if (error.status !== 401) note(error.message, "bad");
    return;
  }
  leave();
  state.conversation = one;
  state.turns = one.all_turns.map(fromServer);
  state.selected = state.turns.length - 1;
  if (one.sources[0]?.name) selectRepository(one.sources[0].name);
  if (fragment() !== id) history.pushState(null, "", `#c=${id}`);
  emit("conversation");
  emit("selected");
  showSide(false);
  const last = state.turns.at(-1);
  if (last) byId(`turn-${last.key}`).scrollIntoView({ block: "start" });
  state.turns.filter((turn) => turn.state === "writing").forEach(follow);
  check(false);
}

/** Show what other clients have done to the open conversation, without a new beginning. */
export async function update() {
  const { conversation, turns } = state;
  // A question without an id is being stored: it comes with the event after that.
  const isStoring = () => turns.some((turn) => turn.state === "writing" && !turn.id);
  if (!conversation || isStoring()) return;
  const before = new Set(turns.map((turn) => turn.id));
  let one;
  try {
    one = await api.conversation(conversation.id);
  } catch (error) {
    if (error.status === 404 && state.conversation?.id === conversation.id) begin();
    return;
  }
  if (state.turns !== turns || state.conversation?.id !== conversation.id || isStoring()) return;
  const stored = new Set(one.all_turns.map((turn) => turn.id));
  const known = new Map(turns.map((turn) => [turn.id, turn]));
  // A turn that was stored while the answer came is not in it, and not gone.
  const gone = turns.filter((turn) => turn.id && before.has(turn.id) && !stored.has(turn.id));
  if (gone.length) {
    const chosen = turns[state.selected];
    gone.forEach((turn) => turn.connection?.abort("left"));
    state.turns = turns.filter((turn) => !gone.includes(turn));
    state.selected = state.turns.includes(chosen) ? state.turns.indexOf(chosen) : state.turns.length - 1;
    emit("conversation");
    emit("selected");
  }
  for (const turn of one.all_turns) {
    const mine = known.get(turn.id);
    if (!mine) {
      const added = fromServer(turn);
      state.turns.push(added);
      emit("turn", added);
      if (added.state === "writing") follow(added);
    } else if (!mine.connection && mine.state !== "failed" && mine.answer !== (turn.answer ?? "")) {
      Object.assign(mine, { ...fromServer(turn), key: mine.key });
      emit("turn", mine);
    }
  }
}

/** Check which answers are still valid. */
async function check(showsResult) {
  const { conversation, turns } = state;
  if (!conversation || !turns.length) return;
  try {
    const found = new Map((await api.freshness(conversation.id)).map((one) => [one.turn, one]));
    if (state.turns !== turns) return;
    for (const turn of turns) {
      if (!found.has(turn.id) || turn.state !== "done") continue;
      turn.check = found.get(turn.id);
      emit("turn", turn);
    }
    // The check used the current files, but the page shows files from the index, so update the index.
    if (turns.some((turn) => turn.check && turn.check.freshness.state !== "fresh")) await updateIndex(state.repository);
    emit("checked");
    if (showsResult) note("Compared with the current code");
  } catch (error) {
    note(`The answers could not be checked: ${error.message}`, "bad");
  }
}

async function change(act, message) {
  try {
    const result = await act();
    await load();
    if (message) note(message);
    return result;
  } catch (error) {
    note(error.message, "bad");
    return null;
  }
}

async function rename(one) {
  const name = await typedText("Rename", { label: "Name", value: one.name || one.title });
  if (name !== null) await change(() => api.rename(one.id, name));
}

async function fork(one, number) {
  const forked = await change(() => api.fork(one.id, number), "Forked; the original conversation is unchanged");
  if (forked) await open(forked.id);
}

/** Fork the open conversation after a turn. */
export const forkAt = (turn) => state.conversation && fork(state.conversation, turn.number);

async function download(one) {
  const content = await change(() => api.exported(one.id));
  if (!content) return;
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: `${(one.title || "").replace(/[^\w-]+/g, "-").slice(0, 60).replace(/^-+|-+$/g, "") || one.id}.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function remove(one) {
  let turns;
  try {
    turns = (await api.conversation(one.id)).all_turns;
  } catch (error) {
    note(error.message, "bad");
    return;
  }
  if (!(await confirmed("Delete this conversation?", `“${one.title || "Untitled"}” with its ${plural(turns.length, "turn")} is deleted permanently.`, "Delete"))) return;
  if (await change(() => api.remove(one.id, turns.at(-1)?.id ?? ""), "Deleted") && state.conversation?.id === one.id) begin();
}

const fragment = () => /^#c=([\w-]+)$/.exec(location.hash)?.[1] ?? null;

/** Open the conversation that the URL names. */
export async function fromUrl() {
  const id = fragment();
  if (id && id !== state.conversation?.id) await open(id);
  else if (!id && state.conversation && !location.hash.startsWith("#L")) begin();
}
