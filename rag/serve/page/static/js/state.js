// The state of the page, and events for its changes.

/** The path prefix under which a proxy publishes the server, "" for none: this file is PREFIX/static/VERSION/js/state.js. */
export const ROOT = new URL("../../..", import.meta.url).pathname.replace(/\/+$/, "");

export const state = {
  repositories: [],
  /** The served name of the selected repository. */
  repository: null,
  /** The models that a question may choose, the usual one first; null before they are known. */
  models: null,
  /** The chosen model; null for the first. */
  model: null,
  conversations: [],
  /** The open conversation; null before its first turn. */
  conversation: null,
  turns: [],
  /** The index of the selected turn, which the panel shows; -1 for none. */
  selected: -1,
  /** What "it" means in the next question, if the user set it: the name of a definition or a file. */
  about: "",
  /** The definition that the tab of calls shall draw: {symbol, path, start, end}; null for the last one. */
  callsOf: null,
  /** The shown page of a repository's wiki: {repository, page}; `page` is null for the list of pages. */
  wiki: null,
  /** The turn whose answer is running, or null. */
  asking: null,
};

const bus = new EventTarget();

export const on = (name, listener) => bus.addEventListener(name, (event) => listener(event.detail));
export const emit = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

/** Return the selected turn, or null. */
export const selectedTurn = () => state.turns[state.selected] ?? null;

/** Return the last known state of the selected repository, or null. */
export const currentRepository = () => state.repositories.find((one) => one.name === state.repository) ?? null;

/** Return the current place of cited lines: the new one if they have moved or changed. */
export const present = (cited, check) => (check?.path && check.start_line ? { ...cited, path: check.path, start_line: check.start_line, end_line: check.end_line } : cited);

/** Return the freshness of the n-th citation of a turn, if it was checked. */
export const freshnessOf = (turn, n) => turn.check?.citations.find((one) => one.n === n)?.freshness;

/** Return the served name of a citation's repository; the citation has the name of the source. */
export function servedName(repository) {
  const own = (one) => one.location.replace(/\/+$/, "").split(/[/:]/).pop().replace(/\.git$/, "");
  const current = currentRepository();
  if (current && (current.name === repository || own(current) === repository)) return current.name;
  const all = state.repositories;
  return (all.find((one) => one.name === repository) ?? all.find((one) => own(one) === repository))?.name ?? repository;
}
