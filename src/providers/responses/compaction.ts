/**
 * Compaction by an upstream of this format: an answer of another form than all others, which is passed on as it comes.
 * Sources: https://platform.openai.com/docs/api-reference/responses/compact, https://ai.azure.com/api-reference/responses/compact-response-conversation
 */
import { objectOf } from "../../lib/json/json.ts";
import { InvalidAnswer } from "../../protocols/errors.ts";
import { countsOf } from "../../protocols/responses/ending.ts";
import type { Account, NativeRoute } from "../provider.ts";

/** @param addressOf where the account's upstream has this format */
export function nativeCompaction(addressOf: (path: string, account: Account) => string): NativeRoute {
  return {
    encode: (body, { account }, headers) => ({ url: addressOf("responses/compact", account), headers, body }),
    decode(body) {
      const answer = objectOf(body);
      if (answer?.["object"] !== "response.compaction") throw new InvalidAnswer("something that is no compaction");
      const usage = countsOf(answer);
      const message = { role: "assistant" as const, content: "", refusal: null };
      return { choices: [{ index: 0, message, finish_reason: "stop" }], ...(usage && { usage }) };
    },
    streamDecoder() {
      throw new InvalidAnswer("a stream in place of a compaction");
    },
  };
}
