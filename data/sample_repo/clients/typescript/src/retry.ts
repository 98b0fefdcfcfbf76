import { SnipError } from "./types.js";

const FIRST_DELAY_MS = 250;

/**
 * Call `send` until it succeeds, fails for good, or was tried `attempts` times.
 * Waits as long as the server asks for, else twice as long as the time before.
 */
export async function withRetry<T>(send: () => Promise<T>, attempts: number): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof SnipError) || !error.retryable || attempt >= attempts) {
        throw error;
      }
      await sleep(delayMs(error, attempt));
    }
  }
}

function delayMs(error: SnipError, attempt: number): number {
  if (error.retryAfterSeconds !== null) {
    return error.retryAfterSeconds * 1000;
  }
  return FIRST_DELAY_MS * 2 ** (attempt - 1);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
