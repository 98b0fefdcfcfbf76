// The selected repository, and the state of its index.

import { api } from "./api.js";
import { typedText } from "./dialogs.js";
import { byId, h, icon, iconButton, note, plural, refill } from "./dom.js";
import { currentRepository, on, state, emit } from "./state.js";
import { save, saved } from "./storage.js";

const RETRY_MS = 3000;
const MAX_WATCHED = 3; // browsers limit the connections to one server
const MAX_SHOWN = 100;
const watched = new Set();
let picker;
let popup;
let filter;

const STAGES = { waiting: "Waiting", walk: "Listing files", read: "Reading", chunk: "Chunking", embed: "Computing vectors", write: "Writing" };

export function startRepositories() {
  picker = h("button", { type: "button", class: "picker", "aria-haspopup": "dialog", "aria-expanded": "false", "aria-controls": "repositories", onclick: toggle });
  popup = h("div", { class: "popup", id: "repositories", role: "dialog", "aria-label": "Repositories", hidden: true });
  filter = h("input", { type: "search", class: "text repositories-filter", "aria-label": "Filter repositories by name", placeholder: "Filter by name", autocomplete: "off", oninput: () => drawPopup() });
  byId("top").append(picker, popup);
  on("repositories", draw);
  addEventListener("pointerdown", (event) => { if (!popup.contains(event.target) && !picker.contains(event.target)) close(); });
  popup.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
    picker.focus();
  });
}

export async function loadRepositories() {
  state.repositories = await api.repositories();
  const before = state.repository ?? saved("repository");
  const exists = state.repositories.some((one) => one.name === before);
  state.repository = exists ? before : (state.repositories[0]?.name ?? null);
  const running = state.repositories.filter((one) => one.job.running).sort((one) => (one.name === state.repository ? -1 : 0));
  running.slice(0, MAX_WATCHED).forEach((one) => watch(one.name));
  emit("repositories");
}

/** Select the repository for questions. */
export function selectRepository(name) {
  if (state.repository === name) return;
  state.repository = name;
  save("repository", name);
  emit("repositories");
}

/** Select a repository as the user; because a conversation is about one repository, start a new one. */
function choose(name) {
  close();
  if (state.repository === name) return;
  selectRepository(name);
  if (state.conversation || state.turns.length) emit("leave");
}

function close() {
  popup.hidden = true;
  picker.setAttribute("aria-expanded", "false");
}

function toggle() {
  popup.hidden = !popup.hidden;
  picker.setAttribute("aria-expanded", String(!popup.hidden));
  if (popup.hidden) return;
  filter.value = "";
  draw();
  popup.querySelector("input, button").focus();
}

function draw() {
  const one = currentRepository();
  refill(picker,
    h("span", { class: `light ${one ? light(one) : "failed"}`, "aria-hidden": "true" }),
    h("span", { class: "unseen" }, "Repository: "),
    h("b", {}, one?.name ?? "none"),
    h("span", { class: "picker-about" }, one ? summary(one) : ""),
    icon("down"));
  picker.parentElement.querySelector(".top-progress")?.remove();
  if (one?.job.running) picker.parentElement.append(bar(one, "top-progress"));
  if (!popup.hidden) drawPopup();
}

const light = (one) => (one.job.running ? "busy" : one.state);

/** Return a short description of a repository. */
export function summary(one) {
  if (one.job.running) return progress(one);
  if (one.state === "failed") return "could not be indexed";
  if (one.state === "cancelled") return "indexing was cancelled";
  if (one.state !== "ready") return one.state;
  return [one.commit && one.commit.slice(0, 7) + (one.dirty ? " + changes" : ""), one.files !== null && plural(one.files, "file")].filter(Boolean).join(" · ");
}

function progress({ job }) {
  const stage = STAGES[job.stage] ?? (job.stage || "Starting");
  return job.total ? `${stage}, ${Math.floor((100 * job.done) / job.total)} %` : stage;
}

function bar({ name, job }, kind = "") {
  const known = job.total > 0;
  const fill = h("i", {});
  fill.style.width = known ? `${(100 * job.done) / job.total}%` : "";
  return h("div", { class: `progress ${kind} ${known ? "" : "unknown"}`, role: "progressbar", "aria-label": `Indexing ${name}`, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": known ? String(Math.floor((100 * job.done) / job.total)) : null }, fill);
}

/** Render everything but the filter again; the filter stays, so that its text and cursor are preserved. */
function drawPopup() {
  const focused = popup.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const many = state.repositories.length > MAX_SHOWN;
  const wanted = many ? filter.value.trim().toLowerCase() : "";
  const found = state.repositories.filter((one) => one.name.toLowerCase().includes(wanted));
  const more = found.length - MAX_SHOWN;
  const fresh = [
    h("ul", { class: "repositories" }, found.slice(0, MAX_SHOWN).map(row)),
    wanted && !found.length && h("p", { class: "fine" }, "No repository matches."),
    more > 0 && h("p", { class: "fine" }, `${more} more; filter by name to find them.`),
    h("button", { type: "button", class: "other", data: { key: "other" }, onclick: other }, icon("plus"), "Another ref or URL"),
  ].filter(Boolean);
  if (many && filter.parentElement === popup) [...popup.children].slice(1).forEach((one) => one.remove());
  else refill(popup, ...(many ? [filter] : []));
  popup.append(...fresh);
  if (focused) popup.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function row(one) {
  const chosen = one.name === state.repository;
  const act = one.job.running
    ? iconButton("stop", `Cancel the indexing of ${one.name}`, () => applied(api.cancelIndex(one.name)), { data: { key: `act-${one.name}` } })
    : iconButton("again", `Update the index of ${one.name}`, () => index(one.name), { data: { key: `act-${one.name}` } });
  return h("li", { class: chosen ? "chosen" : null },
    h("button", { type: "button", class: "repository", data: { key: one.name }, "aria-current": chosen ? "true" : null, onclick: () => choose(one.name) },
      h("span", { class: "repository-name" }, h("span", { class: `light ${light(one)}`, "aria-hidden": "true" }), h("b", {}, one.name)),
      h("span", { class: "fine" }, summary(one)),
      one.job.error && h("span", { class: "fine bad" }, one.job.error)),
    act,
    one.job.running && bar(one));
}

async function applied(work) {
  try {
    replace(await work);
  } catch (error) {
    note(error.message, "bad");
  }
}

function replace(one) {
  const at = state.repositories.findIndex((other) => other.name === one.name);
  if (at < 0) state.repositories.push(one);
  else state.repositories[at] = one;
  emit("repositories");
}

async function index(name) {
  await applied(api.index(name));
  watch(name);
}

/** Update the index to the current files, and wait until it is done. */
export async function updateIndex(name) {
  replace(await api.index(name));
  await watch(name);
}

async function other() {
  const name = await typedText("Another ref or URL", {
    label: "Name", verb: "Index", about: "A repository at a branch, tag or commit, as NAME@REF, or a URL on a host that this server allows.",
  });
  if (!name) return;
  try {
    const one = await api.index(name);
    replace(one);
    choose(one.name);
    watch(one.name);
  } catch (error) {
    note(error.message, "bad");
  }
}

/** Follow a job to its end; if the connection breaks, reload the states. */
async function watch(name) {
  if (watched.has(name)) return;
  watched.add(name);
  try {
    for await (const [event, data] of api.indexEvents(name)) if (event === "state") replace(data);
  } catch {
    setTimeout(() => loadRepositories().catch(() => {}), RETRY_MS);
  }
  watched.delete(name);
  emit("indexed", name);
}
