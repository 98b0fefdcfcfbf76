// The native routes. A key, where the server wants one, stays in this tab and goes out as a header only.

import { tell } from "./state.js";

const KEY = "rag.key";

export const hasKey = () => Boolean(sessionStorage.getItem(KEY));
export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** An answer of the server that is an error. `status` is 0 when nothing answered, `quotes` what it found. */
class Refused extends Error {
  constructor(message, status, code = "", quotes = undefined) {
    super(message);
    this.status = status;
    this.code = code;
    this.quotes = quotes;
  }
}

async function send(method, path, { body, signal } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is it still running?", 0);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  const error = new Refused(told?.error?.message ?? `The server answered ${response.status}.`, response.status, told?.error?.code, told?.quotes);
  if (response.status === 401) tell("key-wanted");
  throw error;
}

const json = async (method, path, options) => (await send(method, path, options)).json();
/** All pages of a list, as far as a reader can look through them. */
async function pages(path, most = 2000) {
  const found = [];
  for (let next = path; next && found.length < most;) {
    const response = await send("GET", next);
    found.push(...(await response.json()));
    next = /<([^>]+)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
  }
  return found;
}
const named = (name) => name.split("/").map(encodeURIComponent).join("/");
const query = (values) => new URLSearchParams(Object.entries(values).flatMap(([k, v]) => [v].flat().map((one) => [k, one])));

export const api = {
  repositories: () => pages("/api/repositories?limit=200"),
  repository: (name) => json("GET", `/api/repositories/${named(name)}`),
  index: (name, rebuild = false) => json("POST", `/api/repositories/${named(name)}/index`, { body: { rebuild } }),
  cancelIndex: (name) => json("POST", `/api/repositories/${named(name)}/index/cancel`),
  indexEvents: (name, signal) => events("GET", `/api/repositories/${named(name)}/index/events`, { signal }),
  source: (name, path, start_line, end_line) => json("GET", `/api/repositories/${named(name)}/source?${query({ path, start_line, end_line })}`),
  map: (name, paths) => json("GET", `/api/repositories/${named(name)}/map?${query({ path: paths })}`),
  search: (body) => json("POST", "/api/search", { body }),
  ask: (body, signal) => events("POST", "/api/ask", { body: { ...body, stream: true }, signal }),
  conversations: () => pages("/api/conversations?limit=200"),
  conversation: (id) => json("GET", `/api/conversations/${named(id)}`),
  freshness: (id) => json("GET", `/api/conversations/${named(id)}/freshness`),
  exported: async (id) => (await send("GET", `/api/conversations/${named(id)}/export`)).blob(),
  rename: (id, name) => json("PATCH", `/api/conversations/${named(id)}`, { body: { name } }),
  fork: (id, number) => json("POST", `/api/conversations/${named(id)}/fork`, { body: number === undefined ? {} : { number } }),
  remove: (id, lastTurn) => json("DELETE", `/api/conversations/${named(id)}?${query({ last_turn: lastTurn })}`),
  removeTurn: (id) => json("DELETE", `/api/turns/${named(id)}`),
  turnsWith: (words) => json("GET", `/api/turns?${query({ q: words, limit: 50 })}`),
};

/** Server-sent events as [name, data], as they come. */
async function* events(method, path, options) {
  const response = await send(method, path, options);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let held = "";
  let whole = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      whole = done;
      if (done) return;
      const blocks = (held + decoder.decode(value, { stream: true })).split("\n\n");
      held = blocks.pop();
      for (const block of blocks) yield parsed(block);
    }
  } finally {
    if (!whole) reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return [name, JSON.parse(data.join("\n") || "null")];
}
