// A menu at a button: arrow keys move in it, Escape or a click outside closes it.

import { h, icon } from "./dom.js";

let shown = null;

export function closeMenu() {
  if (!shown) return false;
  const { menu, button } = shown;
  shown = null;
  menu.remove();
  button.setAttribute("aria-expanded", "false");
  return true;
}

/** Show a menu at a button. `entries` are [icon, label, act] or [icon, label, act, "danger"]. */
export function openMenu(button, entries) {
  const isOpen = shown?.button === button;
  closeMenu();
  if (isOpen) return;
  const menu = h("div", { class: "menu", role: "menu", onkeydown: onKey },
    entries.map(([drawing, label, act, kind]) => h("button", { type: "button", role: "menuitem", class: kind, onclick: () => { closeMenu(); act(); } }, icon(drawing), label)));
  (button.closest("nav, header, main, aside") ?? document.body).append(menu);
  const at = button.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(at.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.min(at.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  button.setAttribute("aria-expanded", "true");
  shown = { menu, button };
  menu.querySelector("button").focus();
}

function onKey(event) {
  const items = [...event.currentTarget.querySelectorAll("button")];
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) {
    event.preventDefault();
    items[(items.indexOf(document.activeElement) + by + items.length) % items.length].focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.stopPropagation();
    const { button } = shown;
    closeMenu();
    button.focus();
  }
}

addEventListener("pointerdown", (event) => {
  if (shown && !shown.menu.contains(event.target) && !shown.button.contains(event.target)) closeMenu();
});
