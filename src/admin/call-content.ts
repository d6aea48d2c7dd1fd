/** The admin API's route of what was said in a call: the stored turn of its conversation, for who may read content, and with a line of the audit. */
import { CallContent } from "../api/calls.ts";
import { Id } from "../http/openapi/describe.ts";
import { redacted } from "../lib/text/redact.ts";
import { storedMessages } from "../operate/calls.ts";
import type { Message } from "../protocols/chat/schema.ts";
import type { AdminPlugin } from "./act.ts";
import { attemptLines } from "./calls.ts";
import { adminOperation } from "./pages.ts";

/** In UTF-16 code units: of one message, and of all together. */
const maxText = 65_536;
const maxAll = 524_288;

type Part = { readonly type: string; readonly text?: string };

function textOf(message: Message): string {
  const { content, tool_calls: calls } = message as {
    readonly content?: string | readonly Part[] | null;
    readonly tool_calls?: unknown;
  };
  const parts = typeof content === "string" ? [content] : (content ?? []).map(({ type, text }) => text ?? `[${type}]`);
  return [...parts, ...(calls === undefined || calls === null ? [] : [JSON.stringify(calls)])].join("\n");
}

/** The messages of a turn and its answer, cut to what a page can show. */
function saidIn(messages: readonly Message[]) {
  let left = maxAll;
  return messages.map((message) => {
    const whole = textOf(message);
    const text = whole.slice(0, Math.min(maxText, left)).toWellFormed();
    left -= text.length;
    return { role: message.role, text, is_cut: text.length < whole.length };
  });
}

export const callContentRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/calls/:id/content",
    async ({ services, request, recordReading, params: { id } }) => {
      const lines = await attemptLines(services, id, request.signal);
      const none = (missing: "log_content_off" | "not_stored") => ({
        ...{ object: "call.content" as const, request_id: id, messages: null, missing },
      });
      if (!services.live.config.log.content) return none("log_content_off");
      const turn = await storedMessages(services.conversations, lines.at(-1)!, "turn");
      if (turn === undefined) return none("not_stored");
      await recordReading(id);
      return {
        object: "call.content" as const,
        request_id: id,
        messages: saidIn(redacted(turn, services.live.config.log.redact)),
        missing: null,
      };
    },
    adminOperation({
      operationId: "adminReadCallContent",
      summary:
        "What was said in a call, where its caller had it stored and log.content is on; leaves a line of the audit",
      description:
        "Only conversations that the caller stored (store: true) are kept, as long as the caller has not deleted them and their retention has not ended. Nothing is kept for this route.",
      params: Id,
      response: CallContent,
      errors: [404],
    }),
  );
