/** One attempt to answer a request, as the accounts know it. */
import type { CallEnd, FailureReason } from "../api/words.ts";
import type { Usage } from "../protocols/chat/schema.ts";
import type { LedgerLine } from "../store/contract/usage.ts";
import type { VariantCall, VariantOutcome } from "../store/contract/variants.ts";
import type { Labels } from "./ledger/labels.ts";

/** Known before anything is sent. */
export type Attempt = {
  /** The id of the request, `req_…`. */
  readonly requestId: string;
  /** Counts the attempts for one request, from 1 on. */
  readonly number: number;
  readonly keyId: string;
  readonly tier: string;
  readonly tags: readonly string[];
  /** Who it is for, as the request says. */
  readonly labels: Labels;
  readonly surface: string;
  /** The client's format, as `protocol.name`. */
  readonly format: string;
  /** The model as the caller named it, truncated. */
  readonly model: string;
  readonly persona?: string | undefined;
  readonly personaVersion?: string | undefined;
  readonly variant?: AttemptVariant | undefined;
  /** True where its caller is not to know which provider and model answer. */
  readonly hidesUpstream?: boolean | undefined;
  /** Target of the attempt; absent where no upstream is asked. */
  readonly target?: AttemptTarget | undefined;
  /** Bounds of what it may use, for those who reserve before it. */
  readonly bounds?: AttemptBounds | undefined;
  /** Its span; absent where the request is not traced. */
  readonly trace?: AttemptTrace | undefined;
};

/** What an answer says of itself. */
export type AnswerTold = {
  /** In the upstream's own word, where it is known. */
  readonly id?: string;
  readonly finishReasons?: readonly string[];
};

/** The span of an attempt. */
interface AttemptTrace {
  told(answer: AnswerTold): void;
  /** @param line when it is final */
  ended(line: LedgerLine): void;
}

/** The variant of a persona that answers. */
export type AttemptVariant = {
  readonly name: string;
  /** The persona's id; absent where the answer is another call's. */
  readonly persona?: string;
  /** What is counted of its calls; absent where no variant of the persona may stop. */
  readonly calls?: Readonly<Record<VariantOutcome, VariantCall>>;
};

/** @property id without the version or label that the caller named */
export type AnsweringPersona = {
  readonly id: string;
  readonly version: string;
  /** True where its callers are not to know which provider and model answer. Absent: they may. */
  readonly hidesUpstream?: boolean;
};

export type AttemptTarget = {
  /** The account's name: the namespace, left of the slash. */
  readonly provider: string;
  /** The name of the built-in provider whose format it speaks. */
  readonly dialect: string;
  readonly baseUrl: string;
  /** The format in which it is called; absent: this program answers, or the call is passed on as it came. */
  readonly upstreamFormat?: string | undefined;
  /** Fingerprint of the key, and the address, of an account that has several of one. */
  readonly key?: string | undefined;
  readonly endpoint?: string | undefined;
  /** The upstream's model name, truncated. */
  readonly model: string;
  /** Compiled in: it costs nothing. */
  readonly isLocal: boolean;
  /** True if the operator named the model: then it has a metric label of its own. */
  readonly isListed: boolean;
};

export type AttemptBounds = {
  /** The bytes of the request's text. */
  readonly inputBytes: number;
  /** Beside them the tokens of what is no text, or is named by its address. */
  readonly inputTokens?: number | undefined;
  /** The most tokens that the answer may have, where the request says so; for each choice. */
  readonly maxOutputTokens?: number | undefined;
  readonly choices?: number | undefined;
  /** Hosted tools that the provider may run itself while it answers; absent: none. */
  readonly hosted?: HostedTools | undefined;
  /** Images that the answer may hold at most, of a call that makes images. */
  readonly images?: number | undefined;
  /** The longest that a recording in the request may be. */
  readonly audioSeconds?: number | undefined;
  /** Service tier of a call that asks for one that costs more than the usual one. */
  readonly serviceTier?: string | undefined;
  /** Other options it asks for that cost more, by their names in prices. */
  readonly surcharges?: readonly string[] | undefined;
  /** Models of the same provider that may answer in place of the one that is asked, by the upstream's own names. Absent: none. */
  readonly otherModels?: readonly string[] | undefined;
  /** Models of the same provider that tools of the request ask, which it bills by their own prices. Absent: none. */
  readonly toolModels?: readonly string[] | undefined;
  /** Where `billed` is unknown: the place in the request that names what nobody here knows the size of. */
  readonly unbounded?: string | undefined;
  /** Absent: by tokens. `nothing`: it asks for nothing that is billed. `unknown`: for what nobody can say before, or by other measures. */
  readonly billed?: "nothing" | "unknown" | undefined;
};

/** Tools that the provider runs itself: it bills their uses, and the tokens of what they find. */
export type HostedTools = {
  readonly tools: readonly BilledTool[];
  /** The most uses of all of them together, where the request says so. */
  readonly maxUses?: number | undefined;
};

export type BilledTool = {
  /** Name of the tool in prices. */
  readonly name: string;
  /** True if its uses cost nothing but their tokens. */
  readonly isFree: boolean;
  /** The most uses of it, where the request says so. */
  readonly maxUses?: number | undefined;
};

/** End of an attempt, and what is known of its use. */
export type Outcome = {
  readonly ended: CallEnd;
  /** Why it was left; absent where no upstream failed or refused it. */
  readonly failure?: FailureReason | undefined;
  /** As the line has them; absent: none. */
  readonly errorCode?: string | null;
  readonly errorText?: string | null;
  /** The HTTP status of the answer; absent where there was none. */
  readonly status?: number | undefined;
  /** The counts that the upstream returned, in part where its answer broke. Absent: none. */
  readonly usage?: Usage | undefined;
  readonly serviceTier?: string | undefined;
  /** The model in the upstream's word, where the request named none. */
  readonly model?: string | undefined;
  /** Text seen of a request and its answer, to estimate from where there are no counts. Absent: nothing was billed. */
  readonly seen?: Seen | undefined;
  /** What its persona's variant is judged by; absent: it is not counted. */
  readonly variantOutcome?: VariantOutcome | undefined;
  /** For `replayed` and `joined`: the id of the request that made the call. */
  readonly callOf?: string | undefined;
};

/** Text that was counted without being kept: its length, and a sample of it. */
export interface TextMeter {
  /** UTF-16 code units, or bytes. */
  readonly length: number;
  readonly sample: readonly string[];
}

/** `input` is absent where it can't be estimated. */
export type Seen = { readonly input: TextMeter | undefined; readonly output: TextMeter };

/** The open entry of one attempt. */
export interface UsageEntry {
  /** Headers about budgets for the client. */
  readonly headers: Readonly<Record<string, string>>;
  /** The first fragment of a stream goes to the client. */
  firstToken(): void;
  /** Calculates the cost of an answer with these counts, in micro-dollars; undefined where unknown. */
  price(usage: Usage, serviceTier?: string): number | undefined;
  /** Ends the attempt; only the first call does anything. Never throws. */
  settle(outcome: Outcome): void;
}

/** Reservation of budgets for an attempt; it ends with the attempt's line, when the ledger has it. */
export type ReservedAttempt = {
  /** True if the store knows of the call from here on. */
  readonly isStored: boolean;
  /** Headers that show the client what is left. */
  readonly headers: Readonly<Record<string, string>>;
};
