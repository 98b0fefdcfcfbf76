import { withRetry } from "./retry.js";
import { SnipError, type ClientOptions, type CreatedLink, type Link } from "./types.js";

export * from "./types.js";

/** Talks to a snip server with an API token. */
export class SnipClient {
  private readonly attempts: number;

  constructor(private readonly options: ClientOptions) {
    this.attempts = options.attempts ?? 3;
  }

  /** Shorten a URL, under `code` if it is given and free. */
  async shorten(url: string, code?: string): Promise<CreatedLink> {
    return this.request<CreatedLink>("POST", "/links", { url, code });
  }

  /** The caller's links, the newest first. */
  async links(): Promise<Link[]> {
    const answer = await this.request<{ links: Link[] }>("GET", "/links");
    return answer.links;
  }

  private request<T>(method: string, path: string, body?: unknown): Promise<T> {
    return withRetry(() => this.send<T>(method, path, body), this.attempts);
  }

  private async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.options.baseUrl + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.options.token}`,
        "Content-Type": "application/json",
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!response.ok) {
      throw await toError(response);
    }
    return (await response.json()) as T;
  }
}

async function toError(response: Response): Promise<SnipError> {
  const retryAfter = response.headers.get("Retry-After");
  const text = await response.text();
  return new SnipError(
    text || response.statusText,
    response.status,
    retryAfter === null ? null : Number(retryAfter),
  );
}
