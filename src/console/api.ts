/** Asks the admin API, with the session's cookie. A request that a missing session refuses waits for the sign-in, and is made again. */
import { signal } from "@preact/signals";
import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";
import type { Query } from "./router.ts";

/** An error of the API, or `offline` where no answer came. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string;
  /** The failed request's id; empty: no answer came. */
  readonly requestId: string;
  constructor(status: number, code: string, message: string, param = "", requestId = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.requestId = requestId;
  }
}

/** Whether somebody has to sign in before the page can go on; the server says so in the page, as far as it knows. */
export const needsSignIn = signal(document.documentElement.dataset["session"] === "none");
/** Whether the last request found no server. */
export const isOffline = signal(false);

const waiting = new Set<() => void>();
let signIns = 0;

/** Makes the requests again that wait for the sign-in. */
export function signedIn(): void {
  signIns += 1;
  needsSignIn.value = false;
  for (const release of waiting) release();
  waiting.clear();
}

function signIn(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    waiting.add(resolve);
    const leave = () => {
      waiting.delete(resolve);
      reject(signal!.reason);
    };
    if (signal?.aborted) leave();
    else signal?.addEventListener("abort", leave, { once: true });
  });
}

/** @param path such as `v1/keys` @returns an address beside the page's own, which may stand below a prefix */
export function apiUrl(path: string, query: Query = {}): string {
  const kept = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `admin/${path}${kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`}`;
}

/** Whether somebody has done something since the last request; opening the page is something. */
let hasActed = true;
for (const kind of ["pointerdown", "keydown", "wheel"])
  addEventListener(
    kind,
    () => {
      hasActed = true;
    },
    { capture: true, passive: true },
  );

/** @returns the header of a request that nobody caused: it does not count as use of the session, which ends where a page is left alone */
function refreshMark(): Readonly<Record<string, string>> {
  const isRefresh = !hasActed;
  hasActed = false;
  return isRefresh ? { "x-troupe-refresh": "1" } : {};
}

export type Asking = { readonly signal?: AbortSignal | undefined; readonly headers?: Readonly<Record<string, string>> };

/** Rejects with ApiFailure. @param method of HTTP @param body as JSON */
export async function ask(method: string, url: string, body?: unknown, asking: Asking = {}): Promise<Response> {
  const json: Readonly<Record<string, string>> = body === undefined ? {} : { "content-type": "application/json" };
  const init: RequestInit = {
    method,
    headers: { ...json, ...refreshMark(), ...asking.headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(asking.signal && { signal: asking.signal }),
    credentials: "same-origin",
    // What ends something is asked even where the page is left with it.
    keepalive: method === "DELETE",
  };
  for (;;) {
    if (needsSignIn.value) await signIn(asking.signal);
    const signInsBefore = signIns;
    let answer: Response;
    try {
      answer = await fetch(url, init);
      isOffline.value = false;
    } catch (error) {
      if (asking.signal?.aborted) throw error;
      isOffline.value = true;
      throw new ApiFailure(0, "offline", "The server does not answer.");
    }
    if (answer.ok) return answer;
    // A provider that refuses its key says nothing about the session.
    const isOwn = answer.headers.get("x-troupe-error-source") !== "upstream";
    if (answer.status !== 401 || !isOwn) throw await failureOf(answer);
    // A late refusal of the session before says nothing about the one that somebody has begun meanwhile.
    if (signIns === signInsBefore) needsSignIn.value = true;
  }
}

export async function failureOf(answer: Response): Promise<ApiFailure> {
  const { error } = ((await answer.json().catch(() => undefined)) ?? {}) as { error?: unknown };
  return apiFailure(error, answer.status, answer.headers.get("x-request-id") ?? "");
}

const wordOf = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) : undefined;

/** @param error as any upstream may have written it */
export function apiFailure(error: unknown, status: number, requestId = ""): ApiFailure {
  const { code, type, message, param } = (typeof error === "object" && error !== null ? error : {}) as Record<
    string,
    unknown
  >;
  const name = wordOf(code) ?? wordOf(type) ?? `http_${status}`;
  const text = wordOf(message) ?? wordOf(error) ?? `The server answered ${status}.`;
  return new ApiFailure(status, name, text, wordOf(param), requestId);
}

async function json<T>(method: string, path: string, query?: Query, body?: unknown, asking?: Asking): Promise<T> {
  const answer = await ask(method, apiUrl(path, query), body, asking);
  return (await answer.json()) as T;
}

export const get = <T>(path: string, query?: Query, asking?: Asking) => json<T>("GET", path, query, undefined, asking);
export const post = <T>(path: string, body: unknown = {}, asking?: Asking) => json<T>("POST", path, {}, body, asking);
export const put = <T>(path: string, body: unknown) => json<T>("PUT", path, {}, body);
export const patch = <T>(path: string, body: unknown) => json<T>("PATCH", path, {}, body);
export const remove = <T>(path: string) => json<T>("DELETE", path);

export type StreamState = "connecting" | "open" | "lost" | "paused";

type Listening = {
  /** Gets the events that came since the last animation frame. */
  readonly onEvents: (events: readonly EventSourceMessage[]) => void;
  readonly onState?: (state: StreamState) => void;
};

const retryMs = 2_000;
/** Events of one frame at most: what is beyond is read in the next. */
const maxHeld = 2_000;

/**
 * Reads a stream of events until it is ended. It goes on behind the last event where the connection is lost, and pauses while nobody sees the page.
 * @returns ends it
 */
export function stream(path: string, query: Query, { onEvents, onState }: Listening): () => void {
  const ended = new AbortController();
  let last = "";
  let held: EventSourceMessage[] = [];
  const deliver = () =>
    new Promise<void>((resolve) => {
      requestAnimationFrame(() => {
        const events = held;
        held = [];
        if (events.length > 0 && !ended.signal.aborted) onEvents(events);
        resolve();
      });
    });
  const readOnce = async () => {
    const hidden = new AbortController();
    const hide = () => document.hidden && hidden.abort();
    document.addEventListener("visibilitychange", hide);
    const signal = AbortSignal.any([ended.signal, hidden.signal]);
    try {
      const headers: Record<string, string> = last === "" ? {} : { "last-event-id": last };
      const answer = await ask("GET", apiUrl(path, query), undefined, { signal, headers });
      onState?.("open");
      const events = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
      let delivering: Promise<void> | undefined;
      for await (const event of events as unknown as AsyncIterable<EventSourceMessage>) {
        if (event.id !== undefined) last = event.id;
        held.push(event);
        delivering ??= deliver().finally(() => {
          delivering = undefined;
        });
        if (held.length >= maxHeld) await delivering;
      }
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  };
  const run = async () => {
    while (!ended.signal.aborted) {
      if (document.hidden) {
        onState?.("paused");
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
        continue;
      }
      onState?.("connecting");
      await readOnce().catch(() => {});
      if (ended.signal.aborted || document.hidden) continue;
      onState?.("lost");
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  };
  void run();
  return () => ended.abort();
}
