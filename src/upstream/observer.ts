/** The observer of an upstream call. */
import type { ChunkBody, CompletionBody, Usage } from "../protocols/chat/schema.ts";
import type { ApiError, UpstreamFault } from "../protocols/errors.ts";
import type { UpstreamError } from "./answer.ts";

/** A whole answer, decoded. */
export type CompletedCall = {
  readonly usage: Usage | undefined;
  readonly completion?: CompletionBody;
  /** Continues the conversation where the upstream stores it. */
  readonly upstreamResponseId: string | undefined;
  /** The part that goes to the client as it came: a plain body, or a stream's terminal event. */
  readonly passed?: string;
  /** In the answer's own word, for requests that name none. */
  readonly model?: string | undefined;
};

/** Notified of the events of a call, for metrics, logs and storage. Every method but `body` is called at most once. */
export interface CallObserver {
  /**
   * The first of all: nothing was done for the call yet.
   * @param signal ends a wait; then it rejects with ClientDisconnected
   * @throws ApiError where the call may not be made
   */
  begin(signal?: AbortSignal): Promise<void>;
  /** The request is about to go upstream. */
  sent(provider: string): void;
  /** The upstream's headers arrived, or the call failed. @param status absent where it failed */
  answered(status?: number): void;
  /** The head of an answer names its service tier, which its body may not. */
  tierTold(serviceTier: string): void;
  /** Another model than the one that was asked answers. */
  servedBy(model: string): void;
  /** The first fragment of a stream is about to go to the client. */
  firstFragment(): void;
  /** A chunk of a stream. */
  body(body: ChunkBody): void;
  /** Gives the cost of an answer with these counts, in micro-dollars; undefined where unknown. */
  costOf(usage: Usage, serviceTier?: string): number | undefined;
  /** The whole answer was decoded. The end of the answer waits for this, which never rejects. */
  completed(result: CompletedCall): Promise<void>;
  /** The upstream answered an error or could not be reached; status 0 without an answer. @param error absent where it could not be read @param counted what it bills all the same */
  upstreamFailed(provider: string, status: number, error?: UpstreamError, counted?: Usage): void;
  /** True if the call can be estimated by the text of an answer that is passed on as bytes. */
  readonly wantsText: boolean;
  /** Text in such an answer. */
  passedText(text: string): void;
  /** A stream broke after its first fragment. @param counted what the upstream had counted by then */
  faulted(fault: UpstreamFault | ApiError, counted: Usage | undefined): void;
  /** The client disconnected before the answer's end. @param counted as above */
  abandoned(counted?: Usage): void;
  /**
   * The call failed before its answer began; only the first time counts. Not called for an upstream's error. @param counted what the
   * upstream had counted of an answer that can't be given
   */
  failed(error: unknown, counted?: Usage): void;
}
