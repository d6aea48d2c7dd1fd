/** What each end means, and how it is shown. */
import type { Call } from "../../../api/calls.ts";

export type { Call, OpenCall } from "../../../api/calls.ts";
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
