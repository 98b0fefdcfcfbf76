// Keeps the page up to date with what other tabs and clients do, while it is visible.

import { api } from "./api.js";
import { load, update } from "./conversations.js";
import { state } from "./state.js";

const PAUSE_MS = 3000;
const UPDATE_DELAY_MS = 60;
let connection = null;
let timer = 0;

/** Watch the conversations. A hidden tab does not: a browser opens few connections to one server. */
export function startLive() {
  document.addEventListener("visibilitychange", connect);
  connect();
}

async function connect() {
  if (document.hidden) {
    connection?.abort();
    connection = null;
    return;
  }
  if (connection) return;
  const mine = connection = new AbortController();
  while (!mine.signal.aborted) {
    try {
      for await (const [name, data] of api.watch(mine.signal)) {
        if (name === "watching") changed(state.conversation?.id); // what was missed before
        else if (name === "conversation") changed(data.id);
      }
    } catch (error) {
      if (error.status === 401) break;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  if (connection === mine) connection = null;
}

/** Load the list, and the open conversation if it has changed; once for several changes. */
let isOpen = false;
function changed(id) {
  isOpen ||= id === state.conversation?.id;
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const also = isOpen;
    isOpen = false;
    try {
      await load();
      if (also) await update();
    } catch { /* The server is away: the next connection loads again. */ }
  }, UPDATE_DELAY_MS);
}
