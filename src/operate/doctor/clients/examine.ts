/** Plays a client against a running server, through whatever stands between: what it strips, collects, cuts or answers itself. */
import { boundedBody } from "../../../lib/http/bounded-body.ts";
import { isObject, parseJson } from "../../../lib/json/json.ts";
import { printable } from "../../../lib/text/printable.ts";
import { type Check, failure, ok, warning } from "../check.ts";
import { type ClientName, type Contract, contracts, type PlayedRequest } from "./contracts.ts";
import { openSocket } from "./socket.ts";

type Examined = {
  readonly client: ClientName;
  /** The server's address, as the client has it: without `/v1`. */
  readonly url: string;
  readonly key: string;
  /** How long a model is silent. */
  readonly silenceMs: number;
};

/** Settings that mend what is found, by the proxies that have them. */
const mends = {
  collected:
    "nginx: `proxy_buffering off; gzip off;`. HAProxy: no `option http-buffer-response`, no `compression`. Caddy: `flush_interval -1`, no `encode` of text/event-stream. See docs/reverse-proxy.md.",
  silence:
    "nginx: `proxy_read_timeout 330s;`. HAProxy: `timeout server 330s` and `timeout client 330s`. Caddy: no `read_timeout` below that in `transport http`. A CDN: the direct address for what is not streamed.",
  size: "nginx: `client_max_body_size 20m;`. Caddy: `request_body { max_size 20MB }`. HAProxy: no rule by `req.body_size`. Troupe: `limits.body_bytes`.",
  headers:
    'nginx: no `proxy_set_header <name> "";`, and `underscores_in_headers on;` for names with a `_`. HAProxy: no `http-request del-header`. Caddy: no `header_up -<name>`.',
  socket:
    "nginx: `proxy_set_header Upgrade $http_upgrade;` and `Connection` as in deploy/nginx.conf. HAProxy: `timeout tunnel`, no `http-request deny` of upgrades. Caddy passes it by itself. Troupe: `websockets.enabled`.",
  errors:
    "nginx: `proxy_intercept_errors off;`. HAProxy: no `http-response return` for errors. Caddy: no `handle_response` for them.",
  paths:
    "Let every path and query of /v1 and /v1beta pass as it is: nginx: `proxy_pass` without a path behind the host. HAProxy: no `http-request set-path`. Caddy: no `rewrite`.",
} as const;

/** Without a body it is asked for by GET. */
type Asking = Pick<PlayedRequest, "path"> & Partial<PlayedRequest>;
type Answered = { readonly status: number; readonly headers: Headers; readonly body: string; readonly json: unknown };

/** Maximum bytes of an answer; a longer one is none of the model. */
const maxAnswer = 4 * 1024 * 1024;
const graceMs = 15_000;
/** Pauses of a stream that tell one that is collected, in milliseconds. */
const pauses = [400, 400, 400];
/** Above nginx's own limit; what an agent with pictures sends; both below the server's. */
const sizes = [1.5, 12];

const withPauses = (list: readonly number[]) => JSON.stringify({ pauses: list });

export class Examination {
  readonly #given: Examined;
  readonly #contract: Contract;

  constructor(given: Examined) {
    this.#given = given;
    this.#contract = contracts[given.client];
  }

  /** Never rejects. */
  async run(): Promise<Check[]> {
    const { url, client } = this.#given;
    const [first, failed] = await this.#tried("Hello");
    const arrived = first && this.#arrived(first);
    if (first === undefined)
      return [
        failure("call", `no answer: ${failed}`, "Check --url: the base address that the client has, without /v1."),
      ];
    if (arrived === undefined) return [failure("call", failed!, adviceFor(first))];
    const rest = await Promise.all([
      ...[
        this.#headers(first, arrived),
        this.#stream(),
        this.#signs(),
        this.#idle(),
        this.#sizes(),
        this.#list(),
        this.#errors(),
      ],
      ...(this.#contract.count === undefined ? [] : [this.#count(this.#contract.count)]),
      ...(this.#contract.socket === undefined ? [] : [this.#socket(this.#contract.socket)]),
    ]);
    return [ok("call", `${url} answers as ${client} asks`), ...rest.flat()];
  }

  #fetch({ path, body }: Asking): Promise<Response> {
    const { url, key, silenceMs } = this.#given;
    return fetch(url + path, {
      ...{ method: body === undefined ? "GET" : "POST", redirect: "manual" },
      headers: { ...this.#contract.headers(key), ...(body && { "content-type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(silenceMs + graceMs),
    });
  }

  /** @throws Error where there is no answer */
  async #ask(asked: Asking): Promise<Answered> {
    const answer = await this.#fetch(asked);
    const bytes = await boundedBody(answer, maxAnswer);
    if (bytes === undefined) throw new Error(`its answer has more than ${maxAnswer / 1_048_576} MiB`);
    const body = bytes.toString();
    return { status: answer.status, headers: answer.headers, body, json: parseJson(body) };
  }

  /** Asks the model plainly. @returns the answer, if there is one, and what is wrong where it is none of the model's */
  async #tried(text: string): Promise<[answer: Answered | undefined, failed: string | undefined]> {
    try {
      const answer = await this.#ask(this.#contract.call(text, false));
      return [answer, this.#arrived(answer) === undefined ? `${answer.status} ${inShort(answer)}` : undefined];
    } catch (error) {
      return [undefined, printable(String(error))];
    }
  }

  /** What arrived, as the model tells it; undefined: that is no answer of it. */
  #arrived({ status, json }: Answered): Readonly<Record<string, unknown>> | undefined {
    const said = status === 200 ? parseJson(this.#contract.said(json)) : undefined;
    return isObject(said) && isObject(said["arrived"]) ? said["arrived"] : undefined;
  }

  #headers(answer: Answered, arrived: Readonly<Record<string, unknown>>): Check[] {
    const sent = this.#contract.headers(this.#given.key);
    const secret = new Set(["authorization", "x-goog-api-key"]);
    const lost = Object.keys(sent).filter((name) => arrived[name] === undefined);
    const changed = Object.keys(sent).filter(
      (name) => !lost.includes(name) && !secret.has(name) && arrived[name] !== sent[name],
    );
    const needs = this.#contract.needs;
    const worse = [...lost, ...changed].flatMap((name) => (needs[name] === undefined ? [] : `${name}: ${needs[name]}`));
    const checks: Check[] = [];
    if (lost.length + changed.length === 0) checks.push(ok("headers", `all ${Object.keys(sent).length} arrive`));
    else {
      const found = [
        ...(lost.length > 0 ? [`stripped: ${lost.join(", ")}`] : []),
        ...(changed.length > 0 ? [`changed: ${changed.join(", ")}`] : []),
        ...worse,
      ];
      checks.push((worse.length > 0 ? failure : warning)("headers", found.join("; "), mends.headers));
    }
    if (!answer.headers.has("x-request-id"))
      checks.push(
        warning("answers' headers", "x-request-id is stripped: a failed call can't be found by its id", mends.headers),
      );
    return checks;
  }

  async #stream(): Promise<Check[]> {
    return attempt("stream", async () => {
      const { reads, headers, status } = await this.#read(pauses);
      const type = headers.get("content-type") ?? "";
      if (status !== 200 || !type.startsWith("text/event-stream"))
        return failure("stream", `${status} ${printable(type)} in place of a stream`, mends.paths);
      const spread = (reads.at(-1) ?? 0) - (reads[0] ?? 0);
      const whole = pauses.reduce((sum, ms) => sum + ms, 0);
      const found = `its pieces, written over ${whole} ms, came over ${Math.round(spread)} ms`;
      if (spread < whole / 2) return failure("stream", `collected: ${found}`, mends.collected);
      const encoding = headers.get("content-encoding");
      return encoding === null
        ? ok("stream", found)
        : warning("stream", `compressed (${printable(encoding)}); ${found}`, mends.collected);
    });
  }

  async #signs(): Promise<Check[]> {
    const { silenceMs } = this.#given;
    const what = `a stream's silence of ${silenceMs / 1000} s`;
    return attempt(what, async () => {
      const { reads, error } = await this.#read([silenceMs]);
      const [first = 0, last = 0] = [reads[0], reads.at(-1)];
      if (error !== undefined || last - first < silenceMs / 2)
        return failure(what, `cut after ${(last / 1000).toFixed(1)} s`, mends.silence);
      const isBetween = (at: number) => at > first + silenceMs * 0.1 && at < first + silenceMs * 0.97;
      return reads.some(isBetween)
        ? ok(what, "signs of life come in between")
        : warning(
            what,
            "it lives, without a sign of life in between",
            "Troupe: `streams.keep_alive_seconds` (15) below the idle time of what stands between; the proxy must not collect: see stream.",
          );
    });
  }

  async #idle(): Promise<Check[]> {
    const { silenceMs } = this.#given;
    const what = `a plain answer after ${silenceMs / 1000} s`;
    return attempt(what, async () => {
      const [, failed] = await this.#tried(withPauses([silenceMs]));
      return failed === undefined ? ok(what, "it comes") : failure(what, failed, mends.silence);
    });
  }

  async #sizes(): Promise<Check[]> {
    return attempt("large requests", async () => {
      for (const size of sizes) {
        const filler = "x".repeat(Math.round(size * 1024 * 1024));
        const [answer, failed] = await this.#tried(filler);
        if (failed === undefined) continue;
        const whose = answer && this.#contract.isError(answer.json) ? "the server's" : "of what stands between";
        return failure("large requests", `${size} MiB are refused, ${whose}: ${failed}`, mends.size);
      }
      return ok("large requests", `${sizes.at(-1)} MiB pass`);
    });
  }

  async #count(asked: PlayedRequest): Promise<Check[]> {
    return attempt("count of tokens", async () => {
      const answer = await this.#ask(asked);
      return answer.status === 200 && isObject(answer.json)
        ? ok("count of tokens", "it is answered")
        : failure("count of tokens", `${answer.status} ${inShort(answer)}`, mends.paths);
    });
  }

  async #list(): Promise<Check[]> {
    return attempt("list of models", async () => {
      const answer = await this.#ask({ path: this.#contract.list });
      const found = answer.status === 200 ? this.#contract.listed(answer.json) : undefined;
      return found === undefined
        ? failure("list of models", `${answer.status} ${inShort(answer)}: not in the client's form`, mends.paths)
        : ok("list of models", `${found.length} in the client's form`);
    });
  }

  async #errors(): Promise<Check[]> {
    return attempt("errors", async () => {
      const answer = await this.#ask(this.#contract.wrong);
      return answer.status === 400 && this.#contract.isError(answer.json)
        ? ok("errors", "they come in the client's form")
        : failure("errors", `${answer.status} ${inShort(answer)}: the client does not see what is wrong`, mends.errors);
    });
  }

  async #socket(path: string): Promise<Check[]> {
    return attempt("WebSocket", async () => {
      const { url, key } = this.#given;
      const status = await openSocket(url + path, this.#contract.headers(key), graceMs);
      if (status === 101) return ok("WebSocket", "it opens");
      return status === 426
        ? warning("WebSocket", "426: the client goes on by HTTP at once, and sends all of each turn", mends.socket)
        : failure(
            "WebSocket",
            `${status ?? "no answer"}: the client tries again before it goes on by HTTP`,
            mends.socket,
          );
    });
  }

  /** Reads a stream with the times at which its parts came, in milliseconds since it was asked for. */
  async #read(list: readonly number[]) {
    const from = performance.now();
    const answer = await this.#fetch(this.#contract.call(withPauses(list), true));
    const reads: number[] = [];
    let error: unknown;
    try {
      for await (const _ of answer.body ?? []) reads.push(performance.now() - from);
    } catch (thrown) {
      error = thrown;
    }
    return { status: answer.status, headers: answer.headers, reads, error };
  }
}

async function attempt(what: string, check: () => Promise<Check | Check[]>): Promise<Check[]> {
  try {
    return [await check()].flat();
  } catch (error) {
    return [failure(what, printable(String(error)), "The connection broke: see the log of what stands between.")];
  }
}

const inShort = ({ body }: Answered) => printable(body.replace(/\s+/g, " ").trim().slice(0, 160));

function adviceFor({ status, json }: Answered): string {
  if (status === 401) return "Give a key by --key or TROUPE_KEY, which may call builtin/probe on the gateway.";
  if (status === 403 || status === 404)
    return isObject(json)
      ? "The key must be allowed builtin/probe on the gateway, and --url name its base: http://host:8080/gateway."
      : mends.paths;
  return isObject(json) ? "See the error's own words." : mends.errors;
}
