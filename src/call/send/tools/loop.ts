/**
 * Answers a call whose model is given tools by MCP: calls the model, then the tools that it asks for, then the model with their
 * results, until it answers or asks for a tool of its caller's. The caller gets one answer.
 *
 * Each turn of the model is an attempt with its own reservation and ledger line, and so is each call of a tool. Calls of the caller's
 * tools end the answer: those that the same turn makes of tools here are left out, and never made, so that nothing is done that
 * nobody reads the result of.
 */
import type { McpBounds } from "../../../config/mcp.ts";
import { Buffered, type Sink } from "../../../lib/streams/flow.ts";
import type { CallableTool } from "../../../mcp/grants.ts";
import { callsMember } from "../../../protocols/added-metadata.ts";
import { StreamFold } from "../../../protocols/chat/fold.ts";
import { downgradeCompletion } from "../../../protocols/chat/legacy-functions.ts";
import type {
  AnswerMessage,
  AssistantMessage,
  ChatRequest,
  CompletionBody,
  Message,
  Metadata,
} from "../../../protocols/chat/schema.ts";
import { ApiError } from "../../../protocols/errors.ts";
import type { ErrorFields, EventEncoder } from "../../../protocols/protocol.ts";
import type { Answer, EventSource, Events, LastEvents, UpstreamError, WholeAnswer } from "../../../upstream/answer.ts";
import { isUpstreamError } from "../../../upstream/answer.ts";
import type { AnswerWriter } from "../../../upstream/call.ts";
import { ClientDisconnected } from "../../../upstream/client.ts";
import type { Target } from "../../../upstream/target.ts";
import { describeFailure } from "../../relay/errors.ts";
import { asApiError } from "../../relay/relay.ts";
import type { CallScope } from "../../scope.ts";
import type { Remember } from "../../settle/settle.ts";
import { finishOf, functionCalls, joinedAnswer, withoutCalls } from "./merge.ts";
import { ToolRun } from "./tool-run.ts";
import { TurnEncoder } from "./turn-encoder.ts";

/** One call of the model. */
export type ToolTurn = {
  readonly targets: readonly Target[];
  readonly writer: AnswerWriter;
  /** @param answer as the upstream gave it @param cost in micro-dollars; undefined where unknown */
  readonly onAnswer: (answer: CompletionBody, target: Target, cost: number | undefined) => void;
};

type ToolLoopOptions = {
  readonly scope: CallScope;
  /** With the request as it goes to each, without the tools. */
  readonly targets: readonly Target[];
  /** True where any of them may be the first. */
  readonly isGroup: boolean;
  readonly tools: readonly CallableTool[];
  readonly bounds: McpBounds;
  readonly signal: AbortSignal;
  /** Calls the model. @throws ApiError; ClientDisconnected */
  readonly call: (turn: ToolTurn) => Promise<Answer<EventSource>>;
  /** Stores the exchange. */
  readonly remember: Remember | undefined;
  /** Awaited before the first call of a tool. */
  readonly onFirstCall: (() => Promise<void>) | undefined;
};

/** @throws ApiError; ClientDisconnected */
export function answerWithTools(options: ToolLoopOptions): Promise<Answer<EventSource>> {
  const { request } = options.scope.asked.call;
  if ((request.n ?? 1) > 1)
    throw ApiError.invalidValue("n", "n must be 1 for a model that calls tools while it answers.");
  return request.stream === true ? new StreamedLoop(options).open() : wholeAnswer(options);
}

const nothing: WholeAnswer = { kind: "whole", status: 200, headers: {}, body: "" };

async function wholeAnswer(options: ToolLoopOptions): Promise<Answer<EventSource>> {
  const loop = new ToolLoop(options, () => {});
  const { writer } = options.scope;
  let earlier: CompletionBody | undefined;
  for (;;) {
    let normal: CompletionBody | undefined;
    const answered = await loop.turn({
      encoder: () => writer.encoder(),
      completion(body) {
        normal = body;
        return nothing;
      },
    });
    if (isUpstreamError(answered) || normal === undefined) return answered;
    const isLast = !(await loop.goesOn());
    earlier = joinedAnswer(earlier, loop.shown(normal, isLast));
    if (!isLast) continue;
    const { metadata } = loop;
    const whole = metadata === undefined ? earlier : { ...earlier, metadata: { ...earlier.metadata, ...metadata } };
    await options.remember?.(whole, undefined, undefined);
    return writer.completion(options.targets[0]?.legacyFunctions === true ? downgradeCompletion(whole) : whole);
  }
}

/** The turns of one answer: what the model is sent next, and whether there is a next. */
class ToolLoop {
  readonly run: ToolRun;
  readonly #options: ToolLoopOptions;
  #targets: readonly Target[];
  /** What the turns so far said, behind the request's messages. */
  #said: Message[] = [];
  #answer: CompletionBody | undefined;
  /** The latest turn was to answer without more calls. */
  #isLast = false;

  constructor(options: ToolLoopOptions, onProgress: (line: string) => void) {
    const { scope, tools, bounds, signal, onFirstCall } = options;
    const { services, context, caller, asked } = scope;
    const { model } = asked.call.request;
    this.#options = options;
    this.#targets = options.targets;
    const room = roomFor(options.targets);
    this.run = new ToolRun({ services, context, caller, model, tools, bounds, room, signal, onFirstCall, onProgress });
  }

  /** The metadata of the calls so far. */
  get metadata(): Metadata | undefined {
    const calls = this.run.metadata;
    return calls === undefined ? undefined : { [callsMember]: calls };
  }

  /** Calls the model with what was said so far. @throws ApiError; ClientDisconnected */
  turn(writer: AnswerWriter): Promise<Answer<EventSource>> {
    this.#answer = undefined;
    this.#isLast = this.#said.length > 0 && this.run.isExhausted;
    return this.#options.call({
      writer,
      targets: this.#targets.map((target) => this.#nextCall(target)),
      onAnswer: (answer, target, cost) => {
        this.run.spent(cost);
        this.#answer = answer;
        // Signatures of thoughts are of the model that gave them.
        const at = this.#targets.findIndex(
          ({ account, call }) => account.name === target.account.name && call.model === target.call.model,
        );
        if (at >= 0 && this.#options.isGroup) this.#targets = [this.#targets[at]!];
        else if (at > 0) this.#targets = this.#targets.slice(at);
      },
    });
  }

  /** Calls the tools that the latest turn asked for. @returns whether the model has to be called with their results */
  async goesOn(): Promise<boolean> {
    const message = this.#answer?.choices[0]?.message;
    if (message === undefined) return false;
    const calls = functionCalls(message);
    const own = calls.filter(({ function: { name } }) => this.run.owns(name));
    if (own.length === 0 || own.length < (message.tool_calls ?? []).length || this.#isLast) return false;
    const results = await this.run.run(own);
    if (this.#options.signal.aborted) throw new ClientDisconnected();
    this.#said = [...this.#said, saidBy(message), ...results];
    return true;
  }

  /** A turn's plain answer as its caller gets it. */
  shown(normal: CompletionBody, isLast: boolean): CompletionBody {
    const [choice] = normal.choices;
    if (choice === undefined) return normal;
    const message = withoutCalls(choice.message, (name) => this.run.owns(name));
    if (!isLast && holdsText(this.#options.targets)) message.content = null;
    return { ...normal, choices: [{ ...choice, message, finish_reason: finishOf(choice.finish_reason, message) }] };
  }

  #nextCall(target: Target): Target {
    const { call } = target;
    const { request } = call;
    const isFirst = this.#said.length === 0;
    const tools = [...(request.tools ?? []), ...this.run.offered];
    const choice = this.#isLast ? "none" : isFirst ? request.tool_choice : laterChoice(request);
    const { tool_choice: _, ...rest } = request;
    const next: ChatRequest = {
      ...rest,
      messages: isFirst ? request.messages : [...request.messages, ...this.#said],
      ...(tools.length > 0 && { tools }),
      ...(choice != null && { tool_choice: choice }),
    };
    return { ...target, legacyFunctions: false, call: { ...call, request: next } };
  }
}

/** The tools that may be added to those of the request, whichever of the targets answers. */
function roomFor(targets: readonly Target[]): number {
  const rooms = targets.map(({ provider, call }) => {
    const most = provider.kind === "remote" ? provider.maxTools : undefined;
    return (most ?? Number.POSITIVE_INFINITY) - (call.request.tools?.length ?? 0);
  });
  return Math.min(...rooms);
}

/** What had to be called has been called: asked for again, it would be called for ever. */
function laterChoice({ tool_choice }: ChatRequest): ChatRequest["tool_choice"] {
  return tool_choice === "none" ? tool_choice : undefined;
}

const saidMembers = [
  ...["content", "refusal", "tool_calls"],
  ...["reasoning_content", "reasoning_details", "thinking_blocks", "extra_content"],
] as const;

/** The model's turn as it is given back, with all that continues its thoughts. */
function saidBy(message: AnswerMessage): Message {
  const said: Record<string, unknown> = { role: "assistant" };
  for (const name of saidMembers) if (message[name] !== undefined) said[name] = message[name];
  return said as AssistantMessage;
}

/** Texts before a JSON answer would keep it from being JSON. */
const holdsText = ([first]: readonly Target[]): boolean =>
  first?.call.request.response_format?.type.startsWith("json") === true;

class StreamedLoop implements EventSource, Sink<Events, LastEvents> {
  readonly #options: ToolLoopOptions;
  readonly #loop: ToolLoop;
  readonly #client: EventEncoder;
  readonly #encoder: TurnEncoder;
  readonly #fold: StreamFold | undefined;
  readonly #events: Buffered<Events, LastEvents>;
  readonly #showsProgress: boolean;
  #turn: EventSource | undefined;
  #isPaused = false;
  #isOver = false;

  constructor(options: ToolLoopOptions) {
    const { scope, targets, remember } = options;
    this.#options = options;
    this.#loop = new ToolLoop(options, (line) => this.#progress(line));
    const { protocol, streamType } = scope.writer;
    this.#showsProgress = streamType === undefined && protocol.stored?.isBackground(scope.asked.call.options) !== true;
    this.#client = scope.writer.encoder();
    this.#fold = remember === undefined ? undefined : new StreamFold();
    this.#encoder = new TurnEncoder({
      encoder: this.#client,
      owns: (name) => this.#loop.run.owns(name),
      holdsText: holdsText(targets),
      legacyFunctions: targets[0]?.legacyFunctions === true,
      onChunk: this.#fold && ((chunk) => this.#fold!.push([chunk])),
    });
    this.#events = new Buffered<Events, LastEvents>(
      {
        pause: () => this.#pauseTurn(true),
        resume: () => this.#pauseTurn(false),
        cancel: () => this.#cancelTurn(),
      },
      1,
    );
  }

  /** Begins the first turn: an error before its first event is an error still. @throws ApiError; ClientDisconnected */
  async open(): Promise<Answer<EventSource>> {
    const first = await this.#begin();
    if (first.kind === "whole") return first;
    this.#follow(first.events);
    return { ...first, events: this };
  }

  flow(sink: Sink<Events, LastEvents>): void {
    this.#events.flow(sink);
  }

  pause(): void {
    this.#events.pause();
  }

  resume(): void {
    this.#events.resume();
  }

  cancel(): void {
    this.#events.cancel();
  }

  push(events: Events): void {
    if (!this.#isOver) this.#events.push(events);
  }

  end(last: LastEvents): void {
    if (this.#isOver) return;
    this.#turn = undefined;
    if (last.how !== "finished") {
      this.#end(last);
      return;
    }
    if (last.events.length > 0) this.push(last.events);
    void this.#next().catch((error) => this.fail(error));
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    if (error instanceof ClientDisconnected) {
      this.#end({ how: "cancelled", events: [] });
      return;
    }
    const { services, context, surface } = this.#options.scope;
    const failure = asApiError(services, context, error);
    Object.assign(context.logFields, describeFailure(services, failure));
    this.#fault(surface.fault(failure));
  }

  #begin(): Promise<Answer<EventSource>> {
    const { writer } = this.#options.scope;
    return this.#loop.turn({ encoder: () => this.#encoder, completion: (body) => writer.completion(body) });
  }

  #follow(turn: EventSource): void {
    this.#turn = turn;
    if (this.#isPaused) turn.pause();
    turn.flow(this);
  }

  /** Goes on behind a turn that has ended: with the next one, or to the answer's end. */
  async #next(): Promise<void> {
    if (await this.#loop.goesOn()) {
      if (this.#isOver) return;
      this.#encoder.nextTurn();
      const answered = await this.#begin();
      if (answered.kind === "stream") {
        if (this.#isOver) answered.events.cancel();
        else this.#follow(answered.events);
      } else if (isUpstreamError(answered)) this.#fault(this.#refused(answered));
      else this.#fault(ApiError.internal("a plain answer in place of a stream").fields());
      return;
    }
    const events: string[] = [];
    this.#encoder.finish(this.#loop.metadata, events);
    await this.#options.remember?.(this.#fold!.result(), undefined, this.#client.isKept ? events.at(-1) : undefined);
    this.#end({ how: "finished", events });
  }

  /** The error fields for a later turn's refusal by its upstream. */
  #refused(error: UpstreamError): ErrorFields {
    const { services, context, surface, writer } = this.#options.scope;
    Object.assign(context.logFields, describeFailure(services, error));
    try {
      return surface.upstreamErrorAnswer(error, writer.protocol, context.id).error ?? {};
    } catch (thrown) {
      return surface.fault(asApiError(services, context, thrown));
    }
  }

  #fault(error: ErrorFields): void {
    const events: string[] = [];
    this.#client.fault(error, events);
    this.#end({ how: "faulted", events });
  }

  /** A comment for whoever reads the stream while a tool is called. Streams that are no event streams have none. */
  #progress(line: string): void {
    if (this.#showsProgress) this.push([`: ${line}\n\n`]);
  }

  #end(last: LastEvents): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.end(last);
  }

  #pauseTurn(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (isPaused) this.#turn?.pause();
    else this.#turn?.resume();
  }

  #cancelTurn(): void {
    this.#isOver = true;
    this.#turn?.cancel();
  }
}
