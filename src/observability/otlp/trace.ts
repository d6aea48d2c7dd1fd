/**
 * The spans of one request: the request itself, and within it each attempt at a model and each call of a tool, as the ledger has them.
 * Source of the names: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
 */
import { truncate } from "../../lib/text/truncate.ts";
import type { LedgerLine } from "../../store/contract/usage.ts";
import { operationOf } from "../operation-name.ts";
import { attributes } from "./values.ts";

export type Span = Readonly<Record<string, unknown>>;

/** Whose child the request's span is. */
export type TraceParent = { readonly traceId: string; readonly spanId: string };

/** What an answer says of itself. */
type Told = { readonly id?: string; readonly finishReasons?: readonly string[] };

/** One request, when it has come. */
export type TracedRequest = {
  /** 32 hexadecimal characters. */
  readonly id: string;
  /** The id that a completion has for the client. */
  readonly answerId: string;
  /** The caller's `traceparent`. */
  readonly traceparent: string | null;
  /** The pattern that was asked for. */
  readonly route: string;
  /** The conversation as the client's headers name it. */
  readonly conversation: string | undefined;
};

/** The same, when its last byte is out. */
export type FinishedRequest = {
  readonly id: string;
  readonly method: string;
  /** `http` or `https`. */
  readonly scheme: string;
  readonly route: string;
  readonly surface: string;
  readonly status: number;
  /** Unix milliseconds. */
  readonly endedAt: number;
  readonly milliseconds: number;
  /** The fields of the request's log line. */
  readonly logFields: Readonly<Record<string, unknown>>;
};

const kinds = { server: 2, client: 3 };
const failed = { code: 2 };

export class RequestTrace {
  readonly #parent: TraceParent;
  readonly #spanId: string;
  readonly #operation: string;
  readonly #request: TracedRequest;
  readonly #newSpanId: () => string;
  readonly #add: (span: Span) => void;
  #refusal: string | undefined;

  /**
   * @param add called with each span when it is over, which of an attempt may be after the request's
   */
  constructor(request: TracedRequest, parent: TraceParent, newSpanId: () => string, add: (span: Span) => void) {
    this.#parent = parent;
    this.#spanId = newSpanId();
    this.#request = request;
    this.#operation = operationOf(request.route);
    this.#newSpanId = newSpanId;
    this.#add = add;
  }

  /** Begins an attempt's span, which its line in the ledger ends. */
  attempt(target: { readonly dialect: string; readonly model: string } | undefined) {
    let answer: Told = {};
    return {
      told: (more: Told) => {
        answer = { ...answer, ...more };
      },
      ended: (line: LedgerLine) => {
        // What is another call's answer, or was refused before anybody was asked, is no call.
        if (line.provider === null || line.ended === "replayed" || line.ended === "joined") return;
        this.#add(target?.dialect === "mcp" ? this.#toolSpan(line) : this.#modelSpan(line, target?.model, answer));
      },
    };
  }

  /** The request is answered by an error of our own. @param code absent: its status says all */
  refused(code: string | null | undefined): void {
    this.#refusal = code ?? undefined;
  }

  finish({ id, method, scheme, route, surface, status, endedAt, milliseconds, logFields }: FinishedRequest): void {
    const { traceId, spanId: parentSpanId } = this.#parent;
    // A stream that broke off began as a success.
    const isFault = status >= 500 || logFields["fault"] !== undefined;
    const reason = this.#refusal ?? logFields["failure_reason"] ?? logFields["failure"] ?? logFields["fault"];
    this.#add({
      ...{ traceId, spanId: this.#spanId, parentSpanId, name: `${method} ${route}`, kind: kinds.server },
      ...between(endedAt - milliseconds, endedAt),
      attributes: attributes({
        "http.request.method": method,
        "url.scheme": scheme,
        "http.route": route,
        "http.response.status_code": status,
        "error.type": status >= 400 || isFault ? errorType(reason, status) : undefined,
        "troupe.surface": surface,
        "troupe.request_id": id,
        "troupe.key": logFields["key"],
        "troupe.stream_end": logFields["stream_end"],
      }),
      ...(isFault && { status: failed }),
    });
  }

  /** @param asked the model that was asked for, which another may have answered for */
  #modelSpan(line: LedgerLine, asked: string | undefined, { id, finishReasons }: Told): Span {
    const { tokens, counted, ended, cost } = line;
    const { answerId, conversation } = this.#request;
    const isCounted = counted === "upstream" || counted === "estimated";
    const count = (tokensOfKind: number) => (isCounted ? tokensOfKind : undefined);
    const some = (tokensOfKind: number) => (tokensOfKind > 0 ? count(tokensOfKind) : undefined);
    return this.#child(line, `${this.#operation} ${line.upstreamModel}`, {
      "gen_ai.operation.name": this.#operation,
      "gen_ai.provider.name": line.provider,
      "gen_ai.request.model": asked || line.upstreamModel,
      "gen_ai.response.model": ended === "finished" ? line.upstreamModel : undefined,
      "gen_ai.response.id": id ?? answerId,
      "gen_ai.response.finish_reasons": finishReasons,
      "gen_ai.conversation.id": conversation && truncate(conversation),
      "gen_ai.response.time_to_first_chunk": line.firstTokenMs === null ? undefined : line.firstTokenMs / 1000,
      "gen_ai.usage.input_tokens": count(tokens.input),
      "gen_ai.usage.output_tokens": count(tokens.output),
      "gen_ai.usage.cache_read.input_tokens": some(tokens.cacheRead),
      "gen_ai.usage.cache_creation.input_tokens": some(tokens.cacheWrite5m + tokens.cacheWrite1h),
      "gen_ai.usage.reasoning.output_tokens": some(tokens.reasoning),
      // In dollars: no convention names it, and several servers read it by this name.
      "gen_ai.usage.cost": cost === null ? undefined : cost / 1e6,
      "troupe.format": line.format,
      "troupe.upstream_format": line.upstreamFormat,
      "troupe.persona": line.persona,
      "troupe.persona_version": line.personaVersion,
      "troupe.persona_variant": line.variant,
      "troupe.ended": ended,
    });
  }

  #toolSpan(line: LedgerLine): Span {
    return this.#child(line, `execute_tool ${line.upstreamModel}`, {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": line.upstreamModel,
      "gen_ai.tool.type": "extension",
      "troupe.mcp_server": line.provider?.replace("mcp:", ""),
      "troupe.persona": line.persona,
      "troupe.ended": line.ended,
    });
  }

  #child(line: LedgerLine, name: string, values: Readonly<Record<string, unknown>>): Span {
    const { attempt, at, totalMs, ended, errorCode, failure, status } = line;
    const isFault = ended === "broken" || ended === "refused" || ended === "interrupted";
    return {
      ...{
        traceId: this.#parent.traceId,
        spanId: this.#newSpanId(),
        parentSpanId: this.#spanId,
        name,
        kind: kinds.client,
      },
      ...between(at, at + totalMs),
      attributes: attributes({
        ...values,
        "troupe.attempt": attempt,
        "error.type": isFault ? (errorType(errorCode ?? failure, status ?? 0) ?? ended) : undefined,
        "troupe.failure": failure,
      }),
      ...(isFault && { status: failed }),
    };
  }
}

/** A word that names the error: its code, else its status; never a message. */
function errorType(reason: unknown, status: number): string | undefined {
  if (typeof reason === "string" && /^[\w.:/-]{1,64}$/.test(reason)) return reason;
  return status >= 400 ? String(status) : reason === undefined || reason === null ? undefined : "broken";
}

const between = (startedAt: number, endedAt: number) => ({
  startTimeUnixNano: nanoseconds(startedAt),
  endTimeUnixNano: nanoseconds(endedAt),
});

/** Text, as a double has not that many digits. */
const nanoseconds = (milliseconds: number) => String(BigInt(Math.round(milliseconds * 1000)) * 1000n);
