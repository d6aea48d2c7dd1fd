/**
 * One client's connection for Responses over a WebSocket. Each `response.create` is answered as the same request by HTTP: by the same
 * route, with its own admission, limits, log line and ledger lines. What is of the connection alone stands here: one turn at a time,
 * the latest answer where it is stored nowhere, and its end.
 */

import type { ServerWebSocket } from "bun";
import { type Host, innerHandle, type ServerHandle } from "../../call/context.ts";
import { type JsonObject, objectOf, parseObject } from "../../lib/json/json.ts";
import { SseParser } from "../../lib/streams/sse.ts";
import type { Usage } from "../../protocols/chat/schema.ts";
import { callerKey } from "../../protocols/credentials.ts";
import { ApiError } from "../../protocols/errors.ts";
import { responseObject } from "../../protocols/responses/object.ts";
import { optionsOf } from "../../protocols/responses/options.ts";
import {
  bodyOf,
  type Cancel,
  errorEvent,
  faultEvent,
  headersIn,
  limitReached,
  named,
  parseMessage,
  type Remembered,
  refusalEvent,
  rememberedOf,
  type SocketTurn,
  terminalOf,
} from "./message.ts";

import { RunningTurn } from "./running.ts";

export type Socket = ServerWebSocket<SocketConnection>;

/** Answers a request as the route of Responses does. @param warmUp the answer in place of a model's, once the caller is admitted */
type Call = (request: Request, server: ServerHandle, warmUp?: () => JsonObject) => Promise<Response>;

/** Messages that wait on one connection for those before them. */
const maxWaiting = 64;
/** Bytes that may wait for a slow reader before its upstream is read no further. */
const maxBuffered = 256 * 1024;
/** Bytes of refusals that may wait for a client that writes on but does not read: beyond it the connection ends. */
const maxRefused = 1024 * 1024;
/** The time between looks at the key, the idle time and the age. */
const watchMs = 15_000;

/** Close codes. Source: https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1 */
const closing = { normal: 1000, goingAway: 1001, policy: 1008 } as const;
type Ending = { readonly code: number; readonly reason: string; readonly event?: JsonObject };

/** The event that names a response. */
const beginning = "response.created";

export class SocketConnection {
  /** The id of the key that opened it. */
  readonly keyId: string;
  readonly #host: Host;
  readonly #call: Call;
  readonly #url: string;
  readonly #headers: Headers;
  readonly #handle: ServerHandle;
  readonly #key: string | undefined;
  readonly #closed = new AbortController();
  /** Turns that begin once those before them have ended. */
  readonly #queue: SocketTurn[] = [];
  #running: RunningTurn | undefined;
  #hasAsked = false;
  /** What the latest turn may be continued from. */
  #latest: Remembered | undefined;
  readonly #openedAt: number;
  #socket: Socket | undefined;
  /** Messages that have not begun to be answered, and their bytes. */
  #waiting = 0;
  #waitingBytes = 0;
  /** Bytes of messages and of what is remembered, which count as bodies in memory. */
  #held = 0;
  #lastTurnAt: number;
  #cancelWatch: (() => void) | undefined;
  /** Messages are read in the order in which they came. */
  #reading: Promise<void> = Promise.resolve();
  #drained: PromiseWithResolvers<void> | undefined;
  /** Bytes of refusals since all was last read: nothing else is sent that no answer waits for. */
  #refused = 0;
  /** Set once no more turns begin: the connection closes when those under way have ended. */
  #ending: Ending | undefined;

  /** @param keyId of the key that opens it @param request that was upgraded @param address of its client */
  constructor(host: Host, keyId: string, request: Request, address: string | undefined, call: Call) {
    this.#host = host;
    this.keyId = keyId;
    this.#call = call;
    this.#url = request.url.startsWith("/") ? `http://localhost${request.url}` : request.url;
    this.#headers = headersOf(request.headers);
    this.#key = callerKey(request.headers);
    this.#handle = innerHandle(address);
    this.#openedAt = host.services.clock.monotonic();
    this.#lastTurnAt = this.#openedAt;
  }

  open(socket: Socket): void {
    this.#socket = socket;
    this.#host.sockets.add(this);
    this.#watch();
    if (this.#host.draining) this.goAway();
  }

  message(message: string | Uint8Array): void {
    const size = typeof message === "string" ? Buffer.byteLength(message) : message.length;
    const { bodyMemory, live } = this.#host.services;
    try {
      const isFull = this.#waiting > 0 && this.#waitingBytes + size > live.config.limits.bodyBytes;
      if (isFull || this.#waiting >= maxWaiting)
        throw ApiError.unavailable("overloaded", "Too many messages wait on this connection.", {
          retryAfterSeconds: 1,
        });
      bodyMemory.check(size, this.#held);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    this.#waiting += 1;
    this.#waitingBytes += size;
    this.#hold(size);
    this.#reading = this.#reading.then(() => this.#read(message, size));
  }

  /** The socket has room again. */
  drain(): void {
    this.#refused = 0;
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  close(): void {
    this.#ending = { code: closing.normal, reason: "" };
    this.#cancelWatch?.();
    this.#host.sockets.delete(this);
    this.#closed.abort();
    this.drain();
    this.#queue.splice(0);
    this.#running?.abort();
    this.#latest = undefined;
    this.#hold(-this.#held);
    this.#socket = undefined;
  }

  /** Closes once the turn under way has ended, as the server is about to stop or to hand over. */
  goAway(): void {
    this.#end({ code: closing.goingAway, reason: "the server is going away" });
  }

  async #read(message: string | Uint8Array, size: number): Promise<void> {
    let isWaiting = false;
    try {
      const said = await parseMessage(message, this.#host.services.live.config.limits);
      if (said !== undefined && "cancels" in said) this.#cancel(said);
      else if (said !== undefined && "refused" in said) this.#sendRefusal(said.refused, undefined);
      else if (said !== undefined) {
        this.#queue.push(said);
        isWaiting = true;
      }
    } catch (error) {
      isWaiting = false;
      this.#refuse(error);
    }
    if (!isWaiting) this.#passed(size);
    this.#next();
  }

  /**
   * Ends a turn and its upstream's call at once. Nothing is said where none is under way any more: it ended while the message came.
   * The event is one that all clients take for an end: https://github.com/pipecat-ai/pipecat/blob/main/src/pipecat/services/openai/responses/llm.py
   */
  #cancel({ cancels, streamId }: Cancel): void {
    if (!this.#hasAsked) throw ApiError.invalidValue("type", "type is response.cancel where nothing was asked yet.");
    const running = this.#running;
    if (running === undefined || !running.mayCancel(cancels)) return;
    if (cancels === undefined && running.turn.streamId !== streamId) return;
    running.hasEnded = true;
    running.abort();
    const { turn, begun, events: sequence_number } = running;
    const response = begun ?? this.#responseOf(turn.source.parsed, "cancelled");
    void this.#sendEvent(
      { type: "response.incomplete", sequence_number, response: { ...response, status: "cancelled" } },
      turn.streamId,
    );
  }

  /** Begins the next turn if none runs, and closes the connection in place of it where it is to end. */
  #next(): void {
    if (this.#running !== undefined) return;
    const { code, reason, event } = this.#ending ?? {};
    if (code === undefined) {
      const turn = this.#queue.shift();
      if (turn !== undefined) void this.#run(turn);
      return;
    }
    for (const { size, streamId } of this.#queue.splice(0)) {
      this.#passed(size);
      this.#sendRefusal(event ?? errorEvent(goingAway()), streamId);
    }
    this.#socket?.close(code, reason);
  }

  async #run(turn: SocketTurn): Promise<void> {
    const running = new RunningTurn(turn);
    this.#running = running;
    this.#hasAsked = true;
    // From here on its request counts the same bytes.
    this.#passed(turn.size);
    try {
      await this.#answer(running);
    } catch (error) {
      if (!running.isAborted) {
        this.#host.services.log.error("a turn over a WebSocket failed unexpectedly", { error });
        await this.#sendEvent(errorEvent(ApiError.internal(error)), turn.streamId);
      }
    }
    this.#running = undefined;
    this.#lastTurnAt = this.#host.services.clock.monotonic();
    if (this.#socket !== undefined) this.#next();
  }

  async #answer(running: RunningTurn): Promise<void> {
    const { turn } = running;
    const { parsed: body } = turn.source;
    const isContinued = this.#latest !== undefined && this.#latest.id === body["previous_response_id"];
    const earlier = isContinued ? this.#latest : undefined;
    const isWarmUp = body["generate"] === false;
    const response = await this.#call(
      this.#requestOf(running, earlier),
      this.#handle,
      isWarmUp ? () => this.#warmUp(body) : undefined,
    );
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const answer = isStream
      ? await this.#forward(response.body!, running)
      : await this.#forwardWhole(response, running);
    // What was cancelled is not remembered, and what it continued is continued again.
    if (running.isAborted) return;
    if (response.status === 401) this.#end({ code: closing.policy, reason: "the API key is no longer valid" });
    // What failed is not continued from here: https://developers.openai.com/api/docs/guides/websocket-mode
    if (answer === undefined && !isContinued) return;
    const isRemembered = answer !== undefined && (body["store"] === false || isWarmUp);
    this.#remember(isRemembered ? rememberedOf(answer, turn, earlier) : undefined);
  }

  /** The request by HTTP that a message stands for. */
  #requestOf({ turn, signal }: RunningTurn, earlier: Remembered | undefined): Request {
    const body = bodyOf(turn, earlier);
    const headers = new Headers(this.#headers);
    headers.set("content-length", String(body.size));
    const requestId = turn.source.parsed["service_request_id"];
    if (requestId != null) headers.set("service-request-id", headerText(requestId));
    for (const [name, value] of headersIn(turn)) headers.set(name, value);
    return new Request(this.#url, { method: "POST", headers, body, signal });
  }

  /** A response without output that a turn may continue: nothing is asked of a model. */
  #warmUp(body: JsonObject): JsonObject {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    return this.#responseOf(body, "completed", usage);
  }

  #responseOf(body: JsonObject, status: "completed" | "cancelled", usage?: Usage): JsonObject {
    const { clock } = this.#host.services;
    const created = Math.floor(clock.now() / 1000);
    const envelope = { id: `resp_${clock.newId()}`, created, model: String(body["model"] ?? "") };
    return responseObject({ usage }, { ...envelope, completed: () => created }, optionsOf(body), status);
  }

  /** @returns the warmed-up response; undefined for a refusal */
  async #forwardWhole(response: Response, running: RunningTurn): Promise<JsonObject | undefined> {
    const { streamId } = running.turn;
    const text = await response.text();
    if (running.isAborted) return undefined;
    running.hasEnded = true;
    if (!response.ok) {
      await this.#sendEvent(refusalEvent(response.status, text, response.headers), streamId);
      return undefined;
    }
    const whole = parseObject(text)!;
    const began = { ...whole, status: "in_progress", completed_at: null, usage: null };
    await this.#sendEvent({ type: "response.created", sequence_number: 0, response: began }, streamId);
    await this.#sendEvent({ type: "response.completed", sequence_number: 1, response: whole }, streamId);
    return whole;
  }

  /** Sends a stream's events on, each as its data alone. @returns the response that it ended with; undefined where it failed */
  async #forward(stream: ReadableStream<Uint8Array>, running: RunningTurn): Promise<JsonObject | undefined> {
    const { streamId } = running.turn;
    const parser = new SseParser();
    const reader = stream.getReader();
    const cancel = () => void reader.cancel().catch(() => {});
    running.signal.addEventListener("abort", cancel, { once: true });
    let last: JsonObject | undefined;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        for (const event of done ? parser.end() : parser.push(value)) {
          if (running.isAborted) return undefined;
          last = terminalOf(event) ?? last;
          running.hasEnded ||= last !== undefined;
          running.events += 1;
          if (event.event === beginning) running.begun = objectOf(parseObject(event.data)?.["response"]);
          const isFault = last?.["type"] === "error";
          await this.#send(named(isFault ? JSON.stringify(faultEvent(last!)) : event.data, streamId));
        }
        if (done) break;
      }
    } finally {
      running.signal.removeEventListener("abort", cancel);
    }
    if (last === undefined && !running.isAborted)
      await this.#sendEvent(
        errorEvent(ApiError.upstreamUnreachable("The answer ended before it was complete.")),
        streamId,
      );
    const isWhole = last?.["type"] === "response.completed" || last?.["type"] === "response.incomplete";
    return isWhole ? objectOf(last!["response"]) : undefined;
  }

  /** @param remembered replaces what is remembered, where it fits in the memory of bodies */
  #remember(remembered: Remembered | undefined): void {
    this.#hold(-(this.#latest?.size ?? 0));
    const fits = remembered !== undefined && remembered.size <= this.#host.services.live.config.limits.bodyBytes;
    this.#latest = fits ? remembered : undefined;
    this.#hold(this.#latest?.size ?? 0);
  }

  #refuse(error: unknown): void {
    if (!(error instanceof ApiError)) throw error;
    this.#sendRefusal(errorEvent(error), undefined);
  }

  #sendRefusal(event: JsonObject, streamId: string | undefined): void {
    const text = named(JSON.stringify(event), streamId);
    void this.#send(text);
    if (this.#socket === undefined || this.#socket.getBufferedAmount() === 0) this.#refused = 0;
    else this.#refused += text.length;
    if (this.#refused > maxRefused) this.#socket?.terminate();
  }

  #sendEvent(event: JsonObject, streamId: string | undefined): Promise<void> | undefined {
    return this.#send(named(JSON.stringify(event), streamId));
  }

  /** @returns a promise while the client reads too slowly */
  #send(text: string): Promise<void> | undefined {
    const socket = this.#socket;
    if (socket === undefined || text === "") return undefined;
    socket.send(text);
    if (socket.getBufferedAmount() <= maxBuffered) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  /** A message waits no more: it is about to be answered, or was refused. */
  #passed(size: number): void {
    if (this.#socket === undefined) return;
    this.#waiting -= 1;
    this.#waitingBytes -= size;
    this.#hold(-size);
  }

  #hold(bytes: number): void {
    this.#held += bytes;
    this.#host.services.bodyMemory.add(bytes);
  }

  #end(ending: Ending): void {
    this.#ending ??= ending;
    this.#next();
  }

  /** Ends the connection when its key is revoked, when it was idle for too long, and when it is too old. */
  #watch(): void {
    const { clock, live, keys } = this.#host.services;
    const { idleSeconds, maxSeconds } = live.config.websockets;
    const now = clock.monotonic();
    const idleLeft = this.#running !== undefined ? watchMs : this.#lastTurnAt + idleSeconds * 1000 - now;
    const left = this.#openedAt + maxSeconds * 1000 - now;
    if (keys.find(this.#key) === undefined)
      this.#end({ code: closing.policy, reason: "the API key is no longer valid" });
    else if (left <= 0) this.#expire(maxSeconds);
    else if (idleLeft <= 0) this.#end({ code: closing.normal, reason: "idle" });
    if (this.#ending !== undefined) return;
    this.#cancelWatch = clock.setTimer(Math.max(1, Math.min(watchMs, left, idleLeft)), () => {
      void keys
        .refresh()
        .catch(() => {})
        .then(() => {
          if (this.#socket !== undefined) this.#watch();
        });
    });
  }

  #expire(seconds: number): void {
    const event = limitReached(seconds);
    void this.#sendEvent(event, undefined);
    this.#end({ code: closing.normal, reason: "connection limit reached", event });
  }
}

const goingAway = () => ApiError.unavailable("draining", "The server is shutting down.");

/** Headers of one connection's handshake, or of one request by HTTP: they do not go for each message. */
const ofHandshake =
  /^(?:connection|upgrade|sec-websocket-.*|content-.*|transfer-encoding|accept|service-request-id|idempotency-key|last-event-id)$/i;

function headersOf(handshake: Headers): Headers {
  const headers = new Headers();
  for (const [name, value] of handshake) if (!ofHandshake.test(name)) headers.set(name, value);
  headers.set("content-type", "application/json");
  // Codex names the version of this transport, which is none of the requests'.
  const beta = (headers.get("openai-beta") ?? "").split(",").map((one) => one.trim());
  const others = beta.filter((one) => one !== "" && !one.startsWith("responses_websockets="));
  if (others.length === 0) headers.delete("openai-beta");
  else headers.set("openai-beta", others.join(", "));
  return headers;
}

/** Any value as a header: what is no good as an id is refused as one. */
const headerText = (value: unknown): string =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value) ? value : " ";
