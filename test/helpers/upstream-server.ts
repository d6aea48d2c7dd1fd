/** A local server that stands for an upstream: it records what reached it and answers what the test says. */

export type RecordedRequest = {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  readonly text: string;
  /** The parsed body; undefined when it is not JSON. */
  readonly json: unknown;
  /** Aborts when the caller leaves before the answer's end. */
  readonly signal: AbortSignal;
};

export type UpstreamHandler = (request: RecordedRequest) => Response | Promise<Response>;

export class UpstreamServer implements Disposable {
  readonly requests: RecordedRequest[] = [];
  readonly #server: ReturnType<typeof Bun.serve>;
  #waiting: (() => void)[] = [];

  /** Listens on a free port of 127.0.0.1. */
  constructor(handler: UpstreamHandler) {
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      idleTimeout: 0,
      fetch: async (request) => {
        const url = new URL(request.url);
        const bytes = await request.bytes();
        const text = new TextDecoder().decode(bytes);
        const recorded: RecordedRequest = {
          method: request.method,
          path: url.pathname + url.search,
          headers: request.headers,
          ...{ bytes, text },
          json: parseOrUndefined(text),
          signal: request.signal,
        };
        this.requests.push(recorded);
        for (const wake of this.#waiting.splice(0)) wake();
        return handler(recorded);
      },
    });
  }

  /** Without a trailing slash. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  get last(): RecordedRequest {
    const request = this.requests.at(-1);
    if (request === undefined) throw new Error("no request has reached the upstream");
    return request;
  }

  /** Resolves once `count` requests have come. */
  async received(count: number): Promise<void> {
    while (this.requests.length < count) await new Promise<void>((wake) => this.#waiting.push(wake));
  }

  [Symbol.dispose](): void {
    this.#server.stop(true);
  }
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A 200 event stream of these pieces, each flushed by itself, in order. */
export function sseResponse(pieces: readonly (string | Uint8Array)[], headers: Record<string, string> = {}): Response {
  const encoder = new TextEncoder();
  let next = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces[next++];
      if (piece === undefined) controller.close();
      else controller.enqueue(typeof piece === "string" ? encoder.encode(piece) : piece);
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream", ...headers } });
}

export function jsonResponse(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });
}
