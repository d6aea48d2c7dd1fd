/** Why a call went as it did, in sentences made of its lines in the ledger. */
import { count, duration, exactMoney } from "../../ui/numbers.ts";
import { type Call, endWords, saidBy, targetOf } from "./line.ts";

/** Milliseconds to the first token of other calls of the model. */
export type Usual = { readonly p50?: number | null; readonly p95?: number | null };

export const failureWords: Readonly<Record<string, string>> = {
  invalid_request: "the provider refused the request itself, which another key of it does not mend",
  context_length: "it was longer than the model takes",
  content_filter: "the provider's content filter refused it",
  unauthorized: "the provider did not take its key: see the Providers page",
  quota: "the provider's account has no credit left",
  not_found: "the provider does not know the model",
  rate_limit: "the provider's rate limit was reached",
  server_error: "the provider failed",
  timeout: "the provider did not answer in time",
  unreachable: "the provider could not be reached",
  broken: "the provider's answer broke off",
};

/** Refusals of Troupe itself, by their codes. */
const ownWords: Readonly<Record<string, string>> = {
  insufficient_quota: "a budget has less left than the call may cost: see Keys and budgets",
  rate_limit_exceeded: "a limit of the key or of its plan was reached, or calls under way hold the rest of a budget",
  model_not_allowed: "the key may not use this model",
  model_without_price: "the model has no price, and the key's budget asks for one",
  unknown_provider: "no provider of that name is set up",
  model_not_found: "there is no such model or persona",
  context_length_exceeded: "it was longer than the model takes",
};

/** @returns why an attempt did not answer */
export function whyLeft({ status, failure, provider, error_code: code }: Call): string {
  if (failure !== null) return failureWords[failure] ?? failure.replaceAll("_", " ");
  if (code && Object.hasOwn(ownWords, code)) return ownWords[code]!;
  if (status === 401) return "the key is unknown, revoked or has expired";
  if (status === 402) return ownWords["insufficient_quota"]!;
  if (status === 403) return "the key may not use this model or surface";
  if (status === 404) return "there is no such model or persona";
  if (status === 429) return "a limit of the key or of its plan was reached";
  if (status === 400 || status === 422) return "the request is not valid; the answer named the field";
  if (status === 503) return "storage or the provider was away for the moment";
  return provider === null ? "no provider was asked" : `${provider} answered ${status ?? "nothing"}`;
}

/** Below so many milliseconds nobody asks where the time went. */
const shortMs = 1_000;

/** The end of the last attempt. One that broke before its first token, as each that is no stream, left the client with an error alone. */
const endOf = ({ ended, first_token_ms: first }: Call) =>
  ended === "broken" && first === null ? "failed before any of its answer came" : endWords[ended].words;

/** @param attempts of one request, the first first @param usual of the model's other calls; absent: not known @returns sentences, the most important first */
export function explain(attempts: readonly Call[], usual?: Usual): string[] {
  const last = attempts.at(-1)!;
  const begun = Date.parse(attempts[0]!.at);
  const total = Date.parse(last.at) - begun + last.total_ms;
  const said: string[] = [];
  const isFailed = ["refused", "broken", "interrupted"].includes(last.ended);
  said.push(`It ${endOf(last)}${isFailed && last.ended !== "interrupted" ? `: ${whyLeft(last)}` : ""}.`);
  const words = (one: Call) => {
    const error = saidBy(one);
    return error === undefined ? "" : ` It said: ${error.replace(/\.$/, "")}.`;
  };
  if (isFailed) said[0] += words(last);
  for (const one of attempts.slice(0, -1))
    said.push(
      one.failure === null && one.ended === "finished"
        ? `Attempt ${one.attempt} at ${targetOf(one) ?? one.model} took ${duration(one.total_ms)}, and the call went on.`
        : `Attempt ${one.attempt} at ${targetOf(one) ?? one.model} took ${duration(one.total_ms)} and was left, because ${whyLeft(one)}${one.status === null ? "" : ` (status ${one.status})`}.${words(one)}`,
    );
  const before = Date.parse(last.at) - begun;
  if (total >= shortMs && before * 2 > total)
    said.push(`Most of its ${duration(total)} went to the attempts before the last.`);
  const first = last.first_token_ms;
  if (first !== null && usual?.p95 != null && usual.p50 != null)
    said.push(
      first > usual.p95
        ? `Its first token took ${duration(first)}, slower than 95 of 100 calls of this model that day (${duration(usual.p95)}; half take less than ${duration(usual.p50)}).`
        : `Its first token took ${duration(first)}, which is usual: half of the model's calls that day take less than ${duration(usual.p50)}, 95 of 100 less than ${duration(usual.p95)}.`,
    );
  const output = last.tokens["output"] ?? 0;
  if (first !== null && output > 0 && last.total_ms - first > first)
    said.push(
      `Most of the time went to writing ${count(output)} tokens, ${Math.round((output * 1000) / Math.max(1, last.total_ms - first))} a second.`,
    );
  const reasoning = last.tokens["reasoning"] ?? 0;
  if (reasoning * 2 > output && reasoning > 0) said.push(`${count(reasoning)} of its output tokens are thinking.`);
  const parts = Object.entries(last.costs_micro_dollars ?? {}).toSorted(([, a], [, b]) => b - a);
  const [name, most] = parts[0] ?? [];
  if (name !== undefined && most !== undefined && most > 0)
    said.push(
      `It cost ${exactMoney(last.cost_micro_dollars!)}, of which ${exactMoney(most)} for ${name.replaceAll("_", " ")}.`,
    );
  if (last.cost_micro_dollars === null)
    said.push(`What it cost is unknown${last.price_note === null ? "" : `: ${last.price_note}`}.`);
  if (last.counted === "estimated") said.push("Its tokens are estimated, as the provider gave no counts.");
  return said;
}
