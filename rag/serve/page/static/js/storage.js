// Settings that the browser stores between visits: theme and repository. Ignored if storage is not available.

export function saved(name) {
  try {
    return localStorage.getItem(`rag.${name}`);
  } catch {
    return null;
  }
}

/** The same until the tab is closed. */
export const session = {
  saved: (name) => sessionStorage.getItem(`rag.${name}`),
  save: (name, value) => sessionStorage.setItem(`rag.${name}`, value),
  remove: (name) => sessionStorage.removeItem(`rag.${name}`),
};

export function save(name, value) {
  try {
    localStorage.setItem(`rag.${name}`, value);
  } catch {
    // In private windows or with strict settings the choice lasts until the page is closed.
  }
}
