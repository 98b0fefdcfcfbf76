// Modal dialogs.

import { hasKey, setKey } from "./api.js";
import { h, iconButton } from "./dom.js";

function open(title, content, buttons) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
    h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title), iconButton("close", "Close", () => dialog.close())),
    ...content, buttons.length ? h("div", { class: "dialog-buttons" }, buttons) : "");
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

const button = (label, onclick, kind = "") => h("button", { type: "button", class: kind, onclick }, label);

/** Ask for confirmation; resolves to whether it was given. */
export function confirmed(title, text, verb) {
  return new Promise((resolve) => {
    let agreed = false;
    const dialog = open(title, [h("p", {}, text)], [
      button("Cancel", () => dialog.close()),
      button(verb, () => { agreed = true; dialog.close(); }, "danger"),
    ]);
    dialog.addEventListener("close", () => resolve(agreed));
  });
}

/** Ask for a line of text; resolves to null if the dialog is cancelled. */
export function typedText(title, { label, value = "", verb = "Save", type = "text", about = "", limit = 1000 }) {
  return new Promise((resolve) => {
    let given = null;
    const done = () => { given = field.value.trim(); dialog.close(); };
    const field = h("input", { type, value, class: "text", maxlength: String(limit), autocomplete: "off", spellcheck: "false", onkeydown: (event) => { if (event.key === "Enter") done(); } });
    const dialog = open(title, [about && h("p", {}, about), h("label", { class: "field" }, h("span", {}, label), field)].filter(Boolean), [
      button("Cancel", () => dialog.close()),
      button(verb, done, "primary"),
    ]);
    field.select();
    dialog.addEventListener("close", () => resolve(given));
  });
}

let asking = null;

/** Ask for a key, in one dialog at a time; resolves to whether one was entered. */
export function askForKey() {
  asking ??= typedText("Key required", {
    label: "Key", type: "password", verb: "Use this key",
    about: `${hasKey() ? "The server does not know this key." : "This server requires a key."} It is stored in this tab until you close it, and sent only to this server.`,
  }).then((key) => {
    asking = null;
    if (key) setKey(key);
    return Boolean(key);
  });
  return asking;
}

const KEYS = [
  ["/", "Write a question"],
  ["Enter", "Ask"],
  ["Esc", "Stop the answer, or close the panel or menu"],
  ["j  k", "Next turn, previous turn"],
  ["o", "Open the first source of the turn"],
  ["s  t  m", "Sources, trace, map"],
  ["c", "Search the code"],
  ["g", "Draw the calls of a definition"],
  ["w  a", "Wiki, all facts"],
  ["r", "Review a change"],
  ["i", "Set what “it” means in the next question"],
  ["n", "New conversation"],
  ["f", "Search the conversations"],
  ["?", "Keyboard shortcuts"],
];

export function showKeys() {
  open("Keyboard shortcuts", [h("dl", { class: "keys" }, KEYS.flatMap(([keys, what]) => [
    h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)]))], []);
}
