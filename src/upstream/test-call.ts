/** Sends a provider the smallest request there is: the answer shows whether the address is reached and the key is accepted. */
import type { FailureReason } from "../api/words.ts";
import { parseJson } from "../lib/json/json.ts";
import type { CompletionBody, Usage } from "../protocols/chat/schema.ts";

import type { BoundAccount } from "./accounts.ts";
import type { Upstream } from "./client.ts";
import { answeredFailure, thrownFailure } from "./failure-reason.ts";

export type TestResult = {
  readonly answered: boolean;
  /** Absent where nothing was answered. */
  readonly status?: number;
  /** Absent where it was answered. */
  readonly reason?: FailureReason;
  /** The beginning of the upstream's error, or of our own; without the key. */
  readonly message?: string;
  /** The beginning of the answer's text; absent where it can't be read. */
  readonly text?: string;
  readonly usage?: Usage;
};

const deadlineMs = 30_000;
const maxMessage = 300;
/** Bytes of an answer that is read: so few tokens never have more. */
const maxAnswer = 256 * 1024;
/** Bytes of an error in which the key is looked for. */
const maxLooked = 64 * 1024;

/** Never rejects. @param bound one key at one endpoint of a provider that is not compiled in */
export async function testCall(upstream: Upstream, bound: BoundAccount, model: string): Promise<TestResult> {
  const { account, provider, credentials } = bound;
  if (provider.kind !== "remote") return { answered: true };
  try {
    const messages = [{ role: "user" as const, content: "Say ok." }];
    const request = { model: `${account.name}/${model}`, messages, max_tokens: 16 };
    const call = { model, request, extras: {}, account, media: new Map() };
    const sent = provider.encode(call);
    const { status, body, headers } = await wholeOf(upstream, sent, bound);
    if (status < 300)
      return {
        answered: true,
        status,
        ...answerIn(body, (json, text) => provider.decode(json, text, { ...call, answerId: "test" })),
      };
    const text = new TextDecoder().decode(body.subarray(0, maxLooked));
    // Before it is cut: a beginning of the key is no less secret.
    const message = credentials.isIn(text)
      ? "an error that quotes the key"
      : text.slice(0, maxMessage).replaceAll(/\s+/g, " ");
    return { answered: false, status, reason: answeredFailure({ status, headers, body }), message };
  } catch (error) {
    const message = (error as Error).message.slice(0, maxMessage);
    return { answered: false, reason: thrownFailure(error) ?? "unreachable", message };
  }
}

/** @returns nothing where it can't be read: that the provider answered is what was asked */
function answerIn(
  body: Uint8Array,
  decode: (json: unknown, text: string) => CompletionBody,
): Pick<TestResult, "text" | "usage"> {
  if (body.byteLength > maxAnswer) return {};
  try {
    const text = new TextDecoder().decode(body);
    const { choices, usage } = decode(parseJson(text), text);
    const content = choices[0]?.message.content;
    return {
      ...(typeof content === "string" && { text: content.slice(0, maxMessage) }),
      ...(usage !== undefined && { usage }),
    };
  } catch {
    return {};
  }
}

async function wholeOf(upstream: Upstream, sent: Parameters<Upstream["send"]>[0], bound: BoundAccount) {
  const answer = await upstream.send(sent, bound, AbortSignal.timeout(deadlineMs));
  const retryAfter = answer.headers.get("retry-after");
  const headers: Record<string, string> = retryAfter === null ? {} : { "retry-after": retryAfter };
  return { status: answer.status, body: await answer.bytes(), headers };
}
