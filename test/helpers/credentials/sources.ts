/** Sources of credentials over real sockets, with an environment and a clock of the test's own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { HttpRequest } from "../../../src/lib/http/client.ts";
import type { KeylessAuth } from "../../../src/providers/provider.ts";
import { openCredentialSources } from "../../../src/upstream/credentials/open.ts";
import type { Signer } from "../../../src/upstream/credentials/signer.ts";
import { ManualClock } from "../manual-clock.ts";
import { TempFolder } from "../temp-folder.ts";
import { WatchedLog } from "../watched-log.ts";

export const startMs = Date.UTC(2026, 10, 23, 21, 0, 0);
export const isoAfter = (clock: ManualClock, ms: number) => new Date(clock.now() + ms).toISOString();

export class TestSources implements Disposable {
  readonly clock = new ManualClock(startMs);
  readonly logged = new WatchedLog();
  readonly env: Record<string, string>;
  readonly #folder = new TempFolder();
  readonly #sources;

  /** @param env beside a home folder that is empty */
  constructor(env: Readonly<Record<string, string>> = {}) {
    this.env = { HOME: this.#folder.path, ...env };
    this.#sources = openCredentialSources({ clock: this.clock, log: this.logged.log, env: this.env });
  }

  /** Writes a file of the home folder. @returns its path */
  write(name: string, text: string): string {
    const path = this.#folder.file(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  signer(auth: KeylessAuth, options: Readonly<Record<string, unknown>> = {}): Signer {
    return this.#sources.signer(auth, { name: "up", baseUrl: "", models: [], options, modelRules: [] });
  }

  [Symbol.dispose](): void {
    this.#sources.close();
    this.#folder[Symbol.dispose]();
  }
}

export const unsigned: HttpRequest = { method: "POST", url: "http://127.0.0.1/x", headers: {}, body: "{}" };

/** The headers of a signed request. */
export const headersOf = async (signer: Signer): Promise<HttpRequest["headers"]> =>
  (await signer.sign(unsigned)).headers;

/** Resolves with the headers of requests once these are others: a renewal in the background is over. */
export async function renewed(signer: Signer, before: string | undefined): Promise<HttpRequest["headers"]> {
  for (;;) {
    const headers = await headersOf(signer);
    if (headers["authorization"] !== before) return headers;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Answers like a server that knows no such path. */
export const notFound = () => new Response("no such path", { status: 404 });
