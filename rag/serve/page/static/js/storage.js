// What this browser keeps between visits: a theme, a repository. Where it may keep nothing, nothing is kept.

export function kept(name) {
  try {
    return localStorage.getItem(`rag.${name}`);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`rag.${name}`, value);
  } catch {
    // Private windows and strict settings: the choice lasts as long as the page.
  }
}
