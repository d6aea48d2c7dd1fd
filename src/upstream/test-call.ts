/** Sends a provider the smallest request there is: the answer shows whether the address is reached and the key is accepted. */
import type { FailureReason } from "../store/usage.ts";
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
};

const deadlineMs = 30_000;
const maxMessage = 300;
/** Bytes of an error in which the key is looked for. */
const maxLooked = 64 * 1024;

/** Never rejects. @param bound one key at one endpoint of a provider that is not compiled in */
export async function testCall(upstream: Upstream, bound: BoundAccount, model: string): Promise<TestResult> {
  const { account, provider, credentials } = bound;
  if (provider.kind !== "remote") return { answered: true };
  try {
    const messages = [{ role: "user" as const, content: "Say ok." }];
    const request = { model: `${account.name}/${model}`, messages, max_tokens: 16 };
    const sent = provider.encode({ model, request, extras: {}, account, media: new Map() });
    const { status, body, headers } = await wholeOf(upstream, sent, bound);
    if (status < 300) return { answered: true, status };
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

async function wholeOf(upstream: Upstream, sent: Parameters<Upstream["send"]>[0], bound: BoundAccount) {
  const answer = await upstream.send(sent, bound, AbortSignal.timeout(deadlineMs));
  const retryAfter = answer.headers.get("retry-after");
  const headers: Record<string, string> = retryAfter === null ? {} : { "retry-after": retryAfter };
  return { status: answer.status, body: await answer.bytes(), headers };
}
