// Starts a question about something that is shown: lines of a file, or a page of the wiki.

import { setAbout } from "./asking.js";
import { setQuestion } from "./composer.js";
import { closePanel } from "./panel.js";

/** On narrow screens the panel covers the input field. */
const NARROW = matchMedia("(max-width: 1100px)");

/** Put the beginning of a question into the field; with `about` set what "it" means in it. */
export function askAbout({ text = "", about = "" }) {
  if (NARROW.matches) closePanel();
  if (about) setAbout(about);
  setQuestion(text);
}
