/** A link as the server lists it. `expires` is in unix seconds, null means never. */
export interface Link {
  code: string;
  url: string;
  clicks: number;
  expires: number | null;
}

/** A link that was just made. */
export interface CreatedLink {
  code: string;
  short_url: string;
  url: string;
}

/** How a client reaches its server. */
export interface ClientOptions {
  baseUrl: string;
  token: string;
  /** How often a request is sent at most; 1 means no second try. */
  attempts?: number;
}

/** The server refused a request, or could not answer it. */
export class SnipError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
    this.name = "SnipError";
  }

  /** Whether the same request may succeed later. */
  get retryable(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}
