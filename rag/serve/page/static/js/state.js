// What the page knows, and who wants to hear when it changes.

export const state = {
  repositories: [],
  /** The served name of the repository that is asked. */
  repository: null,
  conversations: [],
  /** The open conversation; null before its first turn. */
  conversation: null,
  turns: [],
  /** Which turn the panel is about; -1 for none. */
  selected: -1,
  /** What ends the answer under way; null when there is none. */
  asking: null,
};

const bus = new EventTarget();

export const on = (name, listener) => bus.addEventListener(name, (event) => listener(event.detail));
export const tell = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

/** The turn that the panel is about, if any. */
export const selectedTurn = () => state.turns[state.selected] ?? null;

/** The repository that is asked, as the server last told; null when it is not known. */
export const currentRepository = () => state.repositories.find((one) => one.name === state.repository) ?? null;

/** Where cited lines stand now: elsewhere if they have moved or changed, else where they were cited. */
export const present = (cited, check) => (check?.path && check.start_line ? { ...cited, path: check.path, start_line: check.start_line, end_line: check.end_line } : cited);

/** What became of the n-th citation of a turn, where that was looked up. */
export const freshnessOf = (turn, n) => turn.check?.citations.find((one) => one.n === n)?.freshness;

/** The name under which a citation's repository is served: citations carry the source's own name. */
export function servedName(repository) {
  const own = (one) => one.location.replace(/\/+$/, "").split(/[/:]/).pop().replace(/\.git$/, "");
  const current = currentRepository();
  if (current && (current.name === repository || own(current) === repository)) return current.name;
  const all = state.repositories;
  return (all.find((one) => one.name === repository) ?? all.find((one) => own(one) === repository))?.name ?? repository;
}
