/** Sends a provider the smallest request there is, or another: the answer shows whether the address is reached and the key is accepted. */
import type { FailureReason } from "../api/words.ts";
import { parseJson } from "../lib/json/json.ts";
import type { ChatRequest, CompletionBody, Usage } from "../protocols/chat/schema.ts";
import type { BoundAccount } from "./accounts.ts";
import { collect } from "./call.ts";
import type { Upstream, UpstreamAnswer } from "./client.ts";
import { answeredFailure, thrownFailure } from "./failure-reason.ts";
import { DecodedStream } from "./stream/decode.ts";

type TestRequest = Omit<ChatRequest, "model">;

export type TestCallResult = {
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
  /** The answer; absent where it can't be read. */
  readonly completion?: CompletionBody;
};

const deadlineMs = 30_000;
const maxMessage = 300;
/** Bytes of an answer that is read: so few tokens never have more. */
const maxAnswer = 256 * 1024;
/** Bytes of an error in which the key is looked for. */
const maxLooked = 64 * 1024;

const smallest: TestRequest = { messages: [{ role: "user", content: "Say ok." }], max_tokens: 16 };

/** Never rejects. @param bound one key at one endpoint of a provider that is not compiled in */
export async function testCall(
  upstream: Upstream,
  bound: BoundAccount,
  model: string,
  asked: TestRequest = smallest,
): Promise<TestCallResult> {
  const { account, provider, credentials } = bound;
  if (provider.kind !== "remote") return { answered: true };
  try {
    const request = { ...asked, model: `${account.name}/${model}` };
    const call = { model, request, extras: {}, account, media: new Map() };
    const sent = provider.encode(call);
    const answered = { ...call, answerId: "test" };
    const answer = await upstream.send(sent, bound, AbortSignal.timeout(deadlineMs));
    if (answer.status < 300 && asked.stream === true) {
      const completion = await collect(new DecodedStream(answer, provider.streamDecoder(answered)), account.name);
      return { answered: true, status: answer.status, ...partsOf(completion) };
    }
    const { status, body, headers } = await wholeOf(answer);
    if (status < 300)
      return {
        answered: true,
        status,
        ...answerIn(body, (json, text) => provider.decode(json, text, answered)),
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
): Pick<TestCallResult, "text" | "usage" | "completion"> {
  if (body.byteLength > maxAnswer) return {};
  try {
    const text = new TextDecoder().decode(body);
    return partsOf(decode(parseJson(text), text));
  } catch {
    return {};
  }
}

function partsOf(completion: CompletionBody): Pick<TestCallResult, "text" | "usage" | "completion"> {
  const { choices, usage } = completion;
  const content = choices[0]?.message.content;
  return {
    completion,
    ...(typeof content === "string" && { text: content.slice(0, maxMessage) }),
    ...(usage !== undefined && { usage }),
  };
}

async function wholeOf(answer: UpstreamAnswer) {
  const retryAfter = answer.headers.get("retry-after");
  const headers: Record<string, string> = retryAfter === null ? {} : { "retry-after": retryAfter };
  return { status: answer.status, body: await answer.bytes(), headers };
}
