/** Calls as the admin API has them. */
export type Call = {
  readonly id: string;
  readonly request_id: string;
  readonly attempt: number;
  readonly at: string;
  readonly key: string;
  readonly key_name: string | null;
  readonly tags: readonly string[];
  readonly surface: string;
  readonly format: string;
  readonly model: string;
  readonly persona: string | null;
  readonly persona_version: string | null;
  readonly variant: string | null;
  readonly provider: string | null;
  readonly upstream_model: string | null;
  readonly upstream_format: string | null;
  readonly ended: keyof typeof endWords;
  readonly failure: string | null;
  readonly error_code: string | null;
  readonly error_text: string | null;
  readonly status: number | null;
  readonly call_of: string | null;
  readonly service_tier: string | null;
  readonly client: string | null;
  readonly user: string | null;
  readonly counted: "upstream" | "estimated" | "unknown" | "none";
  readonly tokens: Readonly<Record<string, number>>;
  readonly cost_micro_dollars: number | null;
  readonly costs_micro_dollars: Readonly<Record<string, number>> | null;
  readonly price_source: string;
  readonly price_date: string | null;
  readonly price_note: string | null;
  readonly first_token_ms: number | null;
  readonly total_ms: number;
};

/** A call that has no end yet. */
export type OpenCall = Pick<
  Call,
  "request_id" | "attempt" | "at" | "key" | "key_name" | "model" | "persona" | "provider" | "upstream_model" | "client"
> & { readonly age_ms: number };

/** What each end means, and how it is shown. */
export const endWords = {
  finished: { tone: "ok", words: "was answered to its end" },
  replayed: {
    tone: "ok",
    words: "was answered from what is kept of an earlier request with the same service-request-id",
  },
  joined: { tone: "ok", words: "was answered by a call that was under way for the same service-request-id" },
  abandoned: { tone: "warn", words: "was given up by the client before its end" },
  broken: { tone: "bad", words: "broke off: what the client had was not all" },
  interrupted: { tone: "bad", words: "was under way when the server ended" },
  refused: { tone: "bad", words: "was refused" },
} as const;

/** What an attempt's error said; undefined: nothing that is kept. */
export const saidBy = ({ error_code: code, error_text: text }: Pick<Call, "error_code" | "error_text">) =>
  [code, text].filter(Boolean).join(": ") || undefined;
export const targetOf = ({ provider, upstream_model: model }: Pick<Call, "provider" | "upstream_model">) =>
  provider === null ? undefined : `${provider}/${model ?? ""}`;
