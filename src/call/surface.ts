/** The differences between the two surfaces, as a call needs them. */
import type { Caller } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import type { Strategy } from "../lib/http/strategies.ts";
import type { Grants } from "../mcp/grants.ts";
import type { Additions } from "../personas/knowledge/additions.ts";
import type { Source } from "../protocols/body/source.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import type { ApiError, UpstreamFault } from "../protocols/errors.ts";
import type { ErrorFields, NativeChange, Protocol } from "../protocols/protocol.ts";
import type { UpstreamError, WholeAnswer } from "../upstream/answer.ts";
import type { Target } from "../upstream/target.ts";
import type { AnsweringPersona, AttemptVariant } from "../usage/attempt.ts";
import type { Services } from "./services.ts";

export type Plan = {
  /** The targets to call, in order of preference. */
  readonly targets: readonly Target[];
  /** How one of the targets is chosen, which then stand for one model. Absent: they are tried in their order. */
  readonly strategy?: Strategy | undefined;
  /** Shares of the targets, in their order; absent: equal ones. */
  readonly weights?: readonly number[] | undefined;
  /** True where the exchange is stored. */
  readonly store: boolean;
  /** True where the upstream may store the conversation too. */
  readonly upstreamMayHold: boolean;
  /** The persona that answers. Absent: none does. */
  readonly persona?: AnsweringPersona;
  /** The variant of a persona that answers. Absent: it has none. */
  readonly variant?: AttemptVariant;
  /** The tools that are called here while the model answers, and their bounds. Absent: none. */
  readonly mcp?: Grants;
  /** What a persona's knowledge and lorebook add. Absent: nothing. */
  readonly additions?: Additions;
  /** Returns a persona's changes of the request, for upstreams that get the client's own body. Absent: nothing. */
  readonly change?: () => PersonaChange;
};

export type PersonaChange = Pick<NativeChange, "before" | "fields" | "within">;

/** The differences between the two surfaces. */
export interface Surface {
  readonly name: SurfaceName;
  /** True where callers see an upstream's errors in its own words. */
  readonly showsUpstream: boolean;
  /**
   * @param request with the messages of the conversation it continues
   * @param source the request as it was sent
   * @throws ApiError
   */
  plan(services: Services, caller: Caller, request: ChatRequest, source: Source): Promise<Plan>;
  /** Maps an upstream's error to the answer for this surface's callers. @throws ApiError in its place */
  upstreamErrorAnswer(error: UpstreamError, protocol: Protocol, requestId: string): WholeAnswer;
  /** Maps an error of the call itself, such as a timeout, for this surface's callers. */
  failure(error: ApiError): ApiError;
  /** Maps an error within a stream. */
  fault(fault: UpstreamFault | ApiError): ErrorFields;
}
