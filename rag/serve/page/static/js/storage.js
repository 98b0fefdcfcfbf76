// Settings that the browser stores between visits: theme and repository. Ignored if storage is not available.

export function saved(name) {
  try {
    return localStorage.getItem(`rag.${name}`);
  } catch {
    return null;
  }
}

export function save(name, value) {
  try {
    localStorage.setItem(`rag.${name}`, value);
  } catch {
    // In private windows or with strict settings the choice lasts until the page is closed.
  }
}
