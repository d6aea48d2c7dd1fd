/** A transport by `fetch`, which supports forward proxies. */
import type { Flow, Source } from "../streams/flow.ts";
import type { HttpRequest, Transport } from "./client.ts";
import type { CallReceiver } from "./connection.ts";

export type Fetch = (url: string, init: BunFetchRequestInit) => Promise<Response>;

/** Bun's codes of errors before there was a connection. Source: https://github.com/oven-sh/bun/blob/main/src/http.zig */
const unconnected: ReadonlySet<string> = new Set(["ConnectionRefused", "FailedToOpenSocket"]);

export class FetchTransport implements Transport {
  readonly #fetch: Fetch;

  constructor(fetch: Fetch = globalThis.fetch) {
    this.#fetch = fetch;
  }

  /** Has no connect timeout: `fetch` does not report the connection, and the proxy makes its own. */
  send(request: HttpRequest, receiver: CallReceiver): Flow {
    const transfer = new FetchTransfer(receiver);
    void transfer.run(this.#fetch, request);
    return transfer;
  }

  close(): void {}
}

class FetchTransfer implements Flow {
  readonly #receiver: CallReceiver;
  readonly #abort = new AbortController();
  #resumed = Promise.resolve();
  #resume: (() => void) | undefined;

  constructor(receiver: CallReceiver) {
    this.#receiver = receiver;
  }

  async run(fetch: Fetch, { method, url, headers, body }: HttpRequest): Promise<void> {
    const receiver = this.#receiver;
    const { signal } = this.#abort;
    try {
      const answer = await fetch(url, {
        method,
        headers: { ...headers },
        ...(body !== undefined && { body: bodyOf(body) }),
        signal,
        redirect: "manual",
        // The caller handles deadlines and compression.
        timeout: false,
        decompress: false,
      } as BunFetchRequestInit);
      if (signal.aborted) return;
      receiver.head(answer.status, answer.headers);
      const reader = answer.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined;
      for (;;) {
        await this.#resumed;
        const part = await reader?.read();
        if (signal.aborted) return;
        if (part === undefined || part.done) break;
        const { buffer, byteOffset, byteLength } = part.value;
        if (byteLength > 0) receiver.push(Buffer.from(buffer, byteOffset, byteLength));
        if (signal.aborted) return;
      }
      receiver.end(provesEnd(url, answer));
    } catch (error) {
      if (!signal.aborted) receiver.fail(error as Error, !unconnected.has((error as { code?: string }).code ?? ""));
    }
  }

  pause(): void {
    if (this.#resume !== undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#resumed = promise;
    this.#resume = resolve;
  }

  resume(): void {
    this.#resume?.();
    this.#resume = undefined;
  }

  cancel(): void {
    this.#abort.abort();
    this.resume();
  }
}

function bodyOf(body: NonNullable<HttpRequest["body"]>): unknown {
  if (typeof body === "object" && "source" in body) return readableOf(body.source);
  return Array.isArray(body) ? new Blob(body) : body;
}

/** A source as `fetch` takes it: paused while the one before has not been taken. */
function readableOf(source: Source<Uint8Array>): ReadableStream<Uint8Array> {
  let isFlowing = false;
  return new ReadableStream({
    pull(controller) {
      if (isFlowing) {
        source.resume();
        return;
      }
      isFlowing = true;
      source.flow({
        push(bytes) {
          if (bytes.length > 0) controller.enqueue(bytes);
          if ((controller.desiredSize ?? 0) <= 0) source.pause();
        },
        end: () => controller.close(),
        fail: (error) => controller.error(error),
      });
    },
    cancel: () => source.cancel(),
  });
}

/**
 * True if a body that `fetch` read to its end is certainly complete. Over TLS a third party can close the connection, and
 * `fetch` does not report a missing close_notify, so the body must have a length or be chunked
 * (https://www.rfc-editor.org/rfc/rfc9112#section-9.8).
 */
export function provesEnd(url: string, { status, headers }: Response): boolean {
  if (!url.startsWith("https:") || status === 204 || status === 304) return true;
  return headers.has("content-length") || headers.has("transfer-encoding");
}
