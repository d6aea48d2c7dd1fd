/** An upstream's event stream that a test moves by hand. */
export class HeldStream {
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  readonly #cancelled = Promise.withResolvers<void>();
  readonly body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      this.#controller = controller;
    },
    cancel: () => this.#cancelled.resolve(),
  });

  response(headers: Record<string, string> = {}): Response {
    return new Response(this.body, { headers: { "content-type": "text/event-stream", ...headers } });
  }

  /** Sends text or bytes as they are. */
  send(piece: string | Uint8Array): void {
    this.#controller.enqueue(typeof piece === "string" ? new TextEncoder().encode(piece) : piece);
  }

  /** Sends one event. */
  event(data: unknown): void {
    this.send(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  }

  /** A fragment of choice 0 in OpenAI's form. */
  fragment(content: string): void {
    this.event({ id: "up", choices: [{ index: 0, delta: { content }, finish_reason: null }] });
  }

  finish(reason = "stop"): void {
    this.event({ id: "up", choices: [{ index: 0, delta: {}, finish_reason: reason }] });
    this.event("[DONE]");
    this.close();
  }

  close(): void {
    this.#controller.close();
  }

  /** Resets the connection. */
  break(): void {
    this.#controller.error(new Error("reset"));
  }

  /** Resolves when whoever read it has left. */
  get cancelled(): Promise<void> {
    return this.#cancelled.promise;
  }
}
