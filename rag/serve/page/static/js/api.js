// A client of the native routes. The key, if one is needed, is stored for this tab and sent only as a header.

import { ROOT, emit } from "./state.js";

const KEY = "rag.key";

export const hasKey = () => Boolean(sessionStorage.getItem(KEY));
export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** An error response. `status` is 0 if the server did not answer; `quotes` is an answer without the model. */
class ApiError extends Error {
  constructor(message, status, code = "", quotes = undefined) {
    super(message);
    this.status = status;
    this.code = code;
    this.quotes = quotes;
  }
}

async function send(method, path, { body, signal, headers: more } = {}) {
  const headers = { ...more };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(ROOT + path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The server does not respond. Check that it is running.", 0);
  }
  if (response.ok) return response;
  const failure = await response.json().catch(() => null);
  const error = new ApiError(failure?.error?.message ?? `The server answered ${response.status}.`, response.status, failure?.error?.code, failure?.quotes);
  if (response.status === 401) emit("key-required");
  throw error;
}

const json = async (method, path, options) => (await send(method, path, options)).json();
/** Load all pages of a list, up to a limit. */
async function pages(path, limit = 2000) {
  const found = [];
  for (let next = path; next && found.length < limit;) {
    const response = await send("GET", next);
    found.push(...(await response.json()));
    const link = /<([^>]+)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];
    next = ROOT && link?.startsWith(`${ROOT}/`) ? link.slice(ROOT.length) : link;
  }
  return found;
}
const encoded = (name) => name.split("/").map(encodeURIComponent).join("/");
const query = (values) => new URLSearchParams(Object.entries(values).flatMap(([k, v]) => [v].flat().map((one) => [k, one])));

export const api = {
  repositories: () => pages("/api/repositories?limit=200"),
  models: async () => (await json("GET", "/api/models")).models,
  repository: (name) => json("GET", `/api/repositories/${encoded(name)}`),
  index: (name, rebuild = false) => json("POST", `/api/repositories/${encoded(name)}/index`, { body: { rebuild } }),
  cancelIndex: (name) => json("POST", `/api/repositories/${encoded(name)}/index/cancel`),
  indexEvents: (name, signal) => events("GET", `/api/repositories/${encoded(name)}/index/events`, { signal }),
  source: (name, path, start_line, end_line) => json("GET", `/api/repositories/${encoded(name)}/source?${query({ path, start_line, end_line })}`),
  review: (name, range) => json("GET", `/api/repositories/${encoded(name)}/review?${query(range ? { range } : {})}`),
  calls: (name, asked) => json("GET", `/api/repositories/${encoded(name)}/calls?${query(asked)}`),
  overview: (name) => json("GET", `/api/repositories/${encoded(name)}/overview`),
  wiki: (name) => json("GET", `/api/repositories/${encoded(name)}/wiki`),
  wikiPage: (name, page) => json("GET", `/api/repositories/${encoded(name)}/wiki/page?${query({ page })}`),
  search: (body) => json("POST", "/api/search", { body }),
  watch: (signal) => events("GET", "/api/events", { signal }),
  follow: (turn, last, signal) => events("GET", `/api/turns/${encoded(turn)}/events`, { signal, headers: { "Last-Event-ID": String(last) } }),
  stop: (turn) => json("POST", `/api/turns/${encoded(turn)}/stop`),
  ask: (body, signal) => events("POST", "/api/ask", { body: { ...body, stream: true }, signal }),
  conversations: () => pages("/api/conversations?limit=200"),
  conversation: (id) => json("GET", `/api/conversations/${encoded(id)}`),
  freshness: (id, diff = false) => json("GET", `/api/conversations/${encoded(id)}/freshness${diff ? "?diff=true" : ""}`),
  exported: async (id) => (await send("GET", `/api/conversations/${encoded(id)}/export`)).blob(),
  rename: (id, name) => json("PATCH", `/api/conversations/${encoded(id)}`, { body: { name } }),
  fork: (id, number) => json("POST", `/api/conversations/${encoded(id)}/fork`, { body: number === undefined ? {} : { number } }),
  remove: (id, lastTurn) => json("DELETE", `/api/conversations/${encoded(id)}?${query({ last_turn: lastTurn })}`),
  removeTurn: (id) => json("DELETE", `/api/turns/${encoded(id)}`),
  facts: (repository, wanted) => pages(`/api/facts?${query({ repository, ...wanted })}`),
  addFact: (repository, text) => json("POST", "/api/facts", { body: { repository, text } }),
  decideFact: (id, how, body) => json("POST", `/api/facts/${encoded(id)}/${how}`, { body }),
  forgetFact: (id) => json("DELETE", `/api/facts/${encoded(id)}`),
  turnsWith: (words) => json("GET", `/api/turns?${query({ q: words, limit: 50 })}`),
};

/** The server sends something every 15 seconds; a connection without anything for longer than this is lost. */
const SILENCE_MS = 40_000;

/** Yield server-sent events as [name, data, id] as they arrive; the id is 0 if there is none. */
async function* events(method, path, options) {
  const response = await send(method, path, options);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let buffer = "";
  let finished = false;
  try {
    for (;;) {
      const silence = setTimeout(() => reader.cancel().catch(() => {}), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      finished = done;
      if (done) return;
      const blocks = (buffer + decoder.decode(value, { stream: true })).split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) yield parsed(block);
    }
  } finally {
    if (!finished) reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  let name = "message";
  let id = 0;
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("id: ")) id = Number(line.slice(4));
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return [name, JSON.parse(data.join("\n") || "null"), id];
}
