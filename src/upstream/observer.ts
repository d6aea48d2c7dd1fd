/** The observer of an upstream call. */
import type { ChunkBody, CompletionBody, Usage } from "../protocols/chat/schema.ts";
import type { ApiError, UpstreamFault } from "../protocols/errors.ts";

/** Notified of the events of a call, for metrics, logs and storage. Every method but `body` is called at most once. */
export interface CallObserver {
  /** The request is about to go upstream. */
  sent(provider: string): void;
  /** The upstream's headers arrived, or the call failed. */
  answered(): void;
  /** The first fragment of a stream is about to go to the client. */
  firstFragment(): void;
  /** False when `body` does nothing, so that most chunks need not be parsed. */
  readonly wantsBodies: boolean;
  /** A chunk of a stream. */
  body(body: ChunkBody): void;
  /**
   * The whole answer was decoded. `upstreamResponseId` continues it where the upstream stores the conversation.
   * @returns a promise that the end of the answer waits for; it never rejects
   */
  completed(result: {
    usage: Usage | undefined;
    completion?: CompletionBody;
    upstreamResponseId: string | undefined;
  }): Promise<unknown> | undefined;
  /** The upstream answered an error or could not be reached; status 0 without an answer. */
  upstreamFailed(provider: string, status: number): void;
  /** A stream broke after its first fragment. */
  faulted(fault: UpstreamFault | ApiError): void;
}
