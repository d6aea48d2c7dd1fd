/** A proxy that serves a server below a path, and takes the path off, as nginx does by `location /ops/ { proxy_pass http://…/; }`. */
export class PrefixProxy implements AsyncDisposable {
  readonly #server: ReturnType<typeof Bun.serve>;
  /** Without a trailing slash. */
  readonly url: string;

  /** @param prefix such as `/ops` */
  constructor(target: string, prefix: string) {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        if (!pathname.startsWith(`${prefix}/`)) return new Response(null, { status: 404 });
        const { method, headers, body, signal } = request;
        headers.set("host", new URL(target).host);
        const url = target + pathname.slice(prefix.length) + search;
        const answer = await fetch(url, { method, headers, body, signal, redirect: "manual", decompress: false });
        return new Response(answer.body, answer);
      },
    });
    this.url = `http://127.0.0.1:${this.#server.port}${prefix}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }
}
