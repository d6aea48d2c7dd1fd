/** A call seen from beside. */
import type { ChunkBody, CompletionBody, Usage } from "../protocols/chat/schema.ts";
import type { ApiError, UpstreamFault } from "../protocols/errors.ts";

/** What happens on the way, for metrics, logs and memory. Every method is called at most once but `body`. */
export interface CallObserver {
  /** The request is about to go upstream. */
  sent(provider: string): void;
  /** The upstream's headers, or its failure, are there. */
  answered(): void;
  /** The first fragment of a stream is about to go to the client. */
  firstFragment(): void;
  /** False when `body` does nothing: then most bodies need not be made. */
  readonly wantsBodies: boolean;
  /** A stream's body as it passes. */
  body(body: ChunkBody): void;
  /**
   * The whole answer went through. `upstreamResponseId` continues it where the upstream holds the conversation.
   * @returns what the answer's end waits for; it never rejects
   */
  completed(result: {
    usage: Usage | undefined;
    completion?: CompletionBody;
    upstreamResponseId: string | undefined;
  }): Promise<unknown> | undefined;
  /** An upstream's error or a failure to reach it; status 0 when there was none. */
  upstreamFailed(provider: string, status: number): void;
  /** A stream broke after its first fragment. */
  faulted(fault: UpstreamFault | ApiError): void;
}
