/**
 * A provider: pure functions between the public format and an upstream's own, and a schema of its options.
 * A provider never fetches, logs, reads the clock or draws a random id, so the same input always gives the same output.
 */
import type { TObject } from "@sinclair/typebox";
import type { RowsPlace } from "../facts/explain.ts";
import type { ModelRule } from "../facts/rules.ts";
import type { JsonObject } from "../lib/json/json.ts";
import type { Framing, SseEvent } from "../lib/streams/sse.ts";
import type { Source } from "../protocols/body/source.ts";
import type { Extras } from "../protocols/chat/extras.ts";
import type { ChatRequest, ChunkBody, CompletionBody, Message, Usage } from "../protocols/chat/schema.ts";

/** The way to reach one upstream: what the operator configured, or what the environment gave. Its keys are known to the sender alone. */
export type Account = {
  /** The namespace, left of the slash. */
  readonly name: string;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  /** Models to list; more may exist. */
  readonly models: readonly string[];
  /** Provider-specific settings, e.g. Azure's `api_version`. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Overrides of the provider's own model rules: the first whose `match` glob fits the model wins, key by key. */
  readonly modelRules: readonly ModelRule[];
  /** The fate of tools that only the client's format knows. Default: the call is refused. */
  readonly unsupportedTools?: "drop" | undefined;
  /** True if the upstream may keep chat completions that are to be stored: its list of them is everybody's. */
  readonly upstreamStore?: true;
};

/** Bytes of something that the caller named by URL, fetched beforehand because this upstream takes no URLs. */
export type InlineMedia = { readonly mimeType: string; readonly base64: string; readonly charset?: string };

/** Something that the caller named by URL: `param` is the path of the URL in the request, for errors. */
export type RemoteMedia = { readonly url: string; readonly param: string };

/** A call beside completions, by its path below OpenAI's base URL. */
export type Operation =
  | "embeddings"
  | "images/generations"
  | "images/edits"
  | "images/variations"
  | "audio/speech"
  | "audio/transcriptions"
  | "audio/translations"
  | "moderations"
  | "rerank";

/** Texts to embed, checked. */
export type EmbeddingsCall = {
  /** The upstream's model name, right of the slash. */
  readonly model: string;
  readonly account: Account;
  readonly texts: readonly string[];
  readonly dimensions: number | undefined;
  /** The caller's other fields, options among them. */
  readonly fields: Readonly<Record<string, unknown>>;
};

/** Embeddings of an upstream with a format of its own. */
export type EmbeddingsFormat = {
  /** Most texts of one request. */
  readonly batch: number;
  /** @param call with at most `batch` texts @throws ApiError naming what it can't do */
  encode(call: EmbeddingsCall): UpstreamRequest;
  /** @param body the parsed JSON of a 2xx answer @throws InvalidAnswer where it has not `count` vectors */
  decode(body: unknown, count: number): { readonly vectors: readonly (readonly number[])[]; readonly tokens?: number };
};

/** All an adapter may know about one call. */
export type Call<E extends Extras = Extras> = {
  /** The upstream's model name, right of the slash. */
  readonly model: string;
  readonly request: ChatRequest;
  /** The body that the caller sent, of which the request was made: unchanged parts can be copied from there. */
  readonly source?: Source | undefined;
  /** The client's format, where it is not chat completions: the request was translated from it. */
  readonly clientFormat?: string;
  readonly extras: E;
  readonly account: Account;
  /** The caller named a persona and not the model: what the model is known to refuse of sampling and choices is left out. */
  readonly isPersonas?: true;
  /** The account's model rules, and before them what an upstream's refusals taught of this model. Absent: nothing. */
  readonly learned?: readonly ModelRule[];
  /** Fields of its persona that the request goes without, as the model refuses them. */
  readonly leftOut?: readonly string[];
  /** Headers of the caller's request by their names, without secrets; only for a provider's model that tells of them. */
  readonly arrived?: Readonly<Record<string, string>>;
  /** The media that `remoteMedia` asked for, by URL. */
  readonly media: ReadonlyMap<string, InlineMedia>;
  /** The upstream's own id of the answer to continue, where the upstream holds the state. */
  readonly upstreamResponseId?: string;
};

export type AnsweredCall<E extends Extras = Extras> = Call<E> & {
  /** The id of the answer that the caller gets, and of no other: ids that the upstream left out are made from it. */
  readonly answerId: string;
};

/** The place of the account's key in a request. Without a name, or with an account's option `bearer`: `Authorization: Bearer`. */
export type KeyPlace = {
  readonly header?: string;
  /** The name of the query's parameter. */
  readonly query?: string;
  /** Keys that begin so are access tokens: they are said as bearers, and these headers beside them. */
  readonly tokens?: { readonly begin: string; readonly headers: Readonly<Record<string, string>> };
};

/**
 * A way to authenticate accounts without a key: their requests are signed, or carry a token that ends. Names of options are those of
 * the account. Where the option `auth` names a kind it is used; else only where there is no key, and `isChosen` is not set.
 */
export type KeylessAuth = {
  /** Used only where the account's option `auth` names it. */
  readonly isChosen?: true;
} & (
  | {
      readonly kind: "aws-sigv4";
      /** The name of the service in signatures. The region is the option `region`, the profile the option `profile`. */
      readonly service: string;
    }
  | { readonly kind: "google"; readonly scope: string }
  | { readonly kind: "entra"; readonly scope: string }
);

/** A request without credentials: whoever sends it has it signed. */
export type UpstreamRequest = {
  /** Default: POST. */
  readonly method?: string;
  /** Absolute; the query holds no secret. */
  readonly url: string;
  /** Lower-case names. `content-type: application/json`, the key and the account's headers are added by the sender. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent only where the method takes none. */
  readonly body?: string | Uint8Array<ArrayBuffer> | readonly (string | Uint8Array<ArrayBuffer>)[];
  /** Default: the provider's own. */
  readonly keyPlace?: KeyPlace | undefined;
};

/** A caller's own body, patched: JSON that is sent as it is. */
export type NativeBody = NonNullable<UpstreamRequest["body"]>;

/** A caller's headers that its format passes on (`passedRequestHeaders`), by their lower-case names. */
export type PassedHeaders = Readonly<Record<string, string>>;

/**
 * The route of a call whose client speaks the upstream's own format: nothing is translated. The client gets the answer and each
 * event byte for byte; they are decoded for usage, metrics, storage and the proof of their end alone.
 */
export type NativeRoute = {
  encode(body: NativeBody, call: Call, headers: PassedHeaders): UpstreamRequest;
  /** Changes a body so that the call's model takes it, as far as it is known to refuse something. @returns the body itself where there is nothing */
  fit?(body: JsonObject, call: Call, headers: PassedHeaders): JsonObject;
  /** @param body as the caller said it @returns what `fit` and `encode` leave out of a caller's body and headers, in words for the log */
  leftOut?(body: JsonObject, headers: PassedHeaders): readonly string[];
  /** @param body as it goes out @returns false where this upstream is known to drop something of it that a translated call does not */
  takes?(body: JsonObject): boolean;
  /** The upstream keeps no answers, or none that are sure to be found: what is to be stored is stored here alone. */
  readonly keepsNothing?: true;
  /** Thinking goes back to this upstream as it came, signed or not. Absent: what another maker made, or nobody signed, is left out. */
  readonly takesAnyThinking?: true;
  /** Whether the model refuses earlier calls without a signature of its own. */
  needsSignatures?(call: Call): boolean;
  /** Does what the provider's own `decode` does. */
  decode(body: unknown, text: string, call: AnsweredCall): CompletionBody;
  /** Does what the provider's own `streamDecoder` does. */
  streamDecoder(call: AnsweredCall): StreamDecoder;
  /** The upstream's own id in a plain answer: the id that the client gets. In a stream the decoder has it. */
  upstreamResponseId?(body: unknown): string | undefined;
  /**
   * Earlier turns of a conversation that is kept here, as they stand in a body of the format.
   * @returns undefined where they can't be said so that what the caller answers to in them is found
   */
  earlier?(messages: readonly Message[]): JsonObject[] | undefined;
  /** Counts the tokens of such a body. Absent: they are counted as those of any other call. */
  counter?(body: NativeBody, call: Call, headers: PassedHeaders): TokenCounter;
  /**
   * Gives what a persona changed as this model takes it.
   * @param fields of the inner form that the persona set to another value
   * @returns members of the format's own body (undefined: removed; objects are merged); undefined where the call has to be translated
   */
  members?(fields: Readonly<Record<string, unknown>>, call: Call, headers: PassedHeaders): JsonObject | undefined;
};

/**
 * One stream's state. Bodies come in the upstream's order and need no envelope, no role and no usage discipline:
 * `upstream/stream/normaliser.ts` gives every stream its one legal form.
 */
export interface StreamDecoder {
  readonly framing: Framing;
  /**
   * @throws UpstreamFault when the event reports an error; InvalidAnswer when it can't be read, or comes out of its format's
   * order: after that the decoder is of no more use
   */
  push(event: SseEvent): ChunkBody[];
  /** The upstream closed its stream. @returns what was still held back @throws InvalidAnswer when something is missing */
  end(): ChunkBody[];
  /** True once the terminal event was seen: nothing that follows matters. */
  readonly finished: boolean;
  /** The latest event only repeats one that came: clients of the format are better off without it. */
  readonly isRepetition?: boolean;
  /** True once the upstream said that it ended, but not how: `end` gives the answer's end, if nothing else comes until then. */
  readonly closing?: boolean;
  /** The upstream's own id of the answer, where it can be continued by it. */
  readonly upstreamResponseId?: string | undefined;
  /** The upstream's counts so far, where it gives them before the answer's end: what a stream that breaks has cost. */
  readonly counted?: Usage | undefined;
}

export type ProviderEnvironment = {
  /** Variables that hold the key; the first that is set wins. */
  readonly keys: readonly string[];
  /** Variables that move the base URL. */
  readonly baseUrl: readonly string[];
  /** Those of `keys` and `baseUrl` that other tools read too: they serve a provider that the configuration names, and set up none by themselves. */
  readonly shared?: readonly string[];
  /** Variables whose presence alone sets up an upstream that needs no key. */
  readonly presence?: readonly string[];
  /** Those of `keys` that hold access tokens: a key from there sets the option `bearer`. */
  readonly tokens?: readonly string[];
  /** Variables that give options of the account: the option's name by the variable's. */
  readonly options?: Readonly<Record<string, string>>;
  /** The file of credentials of accounts without a key, which an option or a variable names: JSON whose members give options too, where nothing else does. */
  readonly credentialsFile?: {
    readonly option: string;
    readonly variable: string;
    /** The member's name by the option's. */
    readonly members: Readonly<Record<string, string>>;
  };
};

type Described = {
  /** The default namespace, left of the slash. */
  readonly name: string;
  /** The extra options this provider understands; those of others are ignored. */
  readonly extras: TObject;
  /** Well-known models, listed when the operator names none. */
  readonly models: readonly string[];
};

/** What is known of a model beside its name. */
export type ListedModel = {
  /** The upstream's own name. */
  readonly id: string;
  /** Unix seconds. */
  readonly created?: number | undefined;
  /** Most tokens of prompt and answer together, or of the prompt where the upstream counts that alone. */
  readonly contextLength?: number | undefined;
  readonly maxOutputTokens?: number | undefined;
  /** `text`, `image`, `audio`, `video`, `file`. */
  readonly inputModalities?: readonly string[] | undefined;
  readonly outputModalities?: readonly string[] | undefined;
  /** Dollars per million tokens. */
  readonly price?: { readonly input: number; readonly output: number } | undefined;
  /** YYYY-MM-DD: the first day on which it no longer answers. */
  readonly endsOn?: string | undefined;
  readonly isDeprecated?: true | undefined;
};

export type ModelListPage = {
  readonly models: readonly ListedModel[];
  /** Where the next page begins; absent: this is the last. */
  readonly next?: string | undefined;
};

/** A provider's format of its list. */
export type ModelListFormat = {
  /** @param after `next` of the page before */
  request(account: Account, after?: string): UpstreamRequest;
  /** @param body the parsed JSON of a 200 answer @throws InvalidAnswer where it is no list of models */
  page(body: unknown): ModelListPage;
};

/** A question for the number of a call's tokens. */
export type TokenCounter = {
  readonly request: UpstreamRequest;
  /** @param body the parsed JSON of a 200 answer */
  tokensIn(body: unknown): number | undefined;
};

export interface RemoteProvider extends Described {
  readonly kind: "remote";
  /** The format that its upstreams speak: `chat`, `messages`, … where it is a public format of ours too, its name here. */
  readonly format: string;
  /** The same of one translated call, where its upstreams speak more than one. Default: `format`. */
  formatOf?(call: Call): string;
  /** A call as it goes in the format of another one. Absent: the format does not depend on what is asked. */
  alike?(call: Call, other: Call): Call;
  /** The upstream's public address; the config may point elsewhere. */
  readonly baseUrl: string;
  readonly environment: ProviderEnvironment;
  /** True when calls without a key make sense (a server on one's own machine). */
  readonly keyOptional: boolean;
  /** The keys a config's `model_rules` row may hold for this provider (beside `match`), and `options`. */
  readonly modelRules?: TObject;
  readonly options?: TObject;
  /** The rows of facts that a model is called by. Default: the provider's own. */
  rowsFor?(call: Pick<Call, "model" | "account">): readonly RowsPlace[];
  /** True if the call asks for the text of the model's thoughts: then it goes into `metadata.thinking` too. */
  wantsThoughts(call: Call): boolean;
  /** URLs that must be fetched and inlined before `encode`, because the upstream takes none. */
  remoteMedia?(call: Call): readonly RemoteMedia[];
  /** True when this call's conversation is held by the upstream (xAI's stateful mode). */
  holdsConversation?(call: Call): boolean;
  /** Deletes what the upstream holds of a conversation. */
  forget?(responseId: string, account: Account): UpstreamRequest;
  /** The root of the paths of its own API. Default: the account's base URL. */
  apiRoot?(account: Account): string;
  /** Default: a bearer. */
  readonly keyPlace?: KeyPlace;
  /** The most tools that one request may name. Absent: no bound is known. */
  readonly maxTools?: number;
  /** How accounts without a key authenticate. Default: they don't. */
  readonly auth?: KeylessAuth;
  /** The address of an operation in OpenAI's own format. Absent, or nothing: this upstream is known to have none. */
  endpoint?(operation: Operation, model: string, account: Account): string | undefined;
  /** The address of a method of a format that this upstream speaks itself, other than those that answer. Absent, or nothing: it has none. */
  methodAddress?(format: string, method: string, model: string, account: Account): string | undefined;
  /** Fields of such an operation that have another name here (`null`: that are not sent). */
  operationFields?(operation: Operation): Readonly<Record<string, string | null>> | undefined;
  /** The format of its list of models. Absent: it is not known to have one. */
  readonly modelList?: ModelListFormat;
  /** The format of embeddings, where it is not OpenAI's. */
  readonly embeddings?: EmbeddingsFormat;
  /** @throws ApiError for what this provider can't do, naming the field */
  encode(call: Call): UpstreamRequest;
  /** Asks this upstream for the number of a call's tokens without an answer. Absent, or nothing: it can't be asked. */
  counter?(call: Call): TokenCounter | undefined;
  /** @param format the client's (`Protocol.name`) @returns undefined where this call's upstream does not speak it: it is translated */
  native?(format: string, call: Call): NativeRoute | undefined;
  /**
   * @param body the parsed JSON of a 2xx answer
   * @param text the same, as it came, for faults
   * @throws UpstreamFault when the answer is an error after all; InvalidAnswer when it is neither
   */
  decode(body: unknown, text: string, call: AnsweredCall): CompletionBody;
  streamDecoder(call: AnsweredCall): StreamDecoder;
  /** The upstream's own id in a plain answer, where it can be continued by it. */
  upstreamResponseId?(body: unknown): string | undefined;
  /** The service tier that the head of an answer names, where its body may not. */
  servedTier?(header: (name: string) => string | null): string | undefined;
  /** Whole seconds to wait that an error's body names, where the upstream has no `retry-after` header for it. */
  retryAfterSeconds?(error: string): number | undefined;
}

/** A model compiled into the executable: no upstream, no network. */
export interface LocalProvider extends Described {
  readonly kind: "local";
  answer(call: Call): CompletionBody;
  stream(call: Call): Iterable<ChunkBody>;
  /** The model that is told of the request's headers, and whose answers have pauses. */
  readonly probe: string;
  /** In milliseconds: before the second chunk of a call to that model, and those behind it. */
  pauses(call: Call): readonly number[];
}

export type Provider = RemoteProvider | LocalProvider;
