/** A normalised plain answer as a message of this format. */
import { type JsonObject, listOf } from "../../lib/json/json.ts";
import { deltaOf } from "../chat/response.ts";
import type { AnswerMessage, CompletionBody, Envelope } from "../chat/schema.ts";
import { type BlockSink, Blocks } from "./blocks.ts";
import { notStopped, stopFields, stoppedAt, usageFields } from "./ending.ts";
import { inputOf } from "./facts.ts";
import { type OwnNames, withOwnName } from "./names.ts";
import type { ThinkingShown } from "./thinking.ts";

/** Options of the request that its answer depends on. */
export type AnswerOptions = {
  readonly thinking: ThinkingShown;
  /** The stop sequences that were asked for. */
  readonly stops: readonly string[];
  /** Absent: every tool has its own name. */
  readonly names?: OwnNames | undefined;
};

export function messageBody(
  body: CompletionBody,
  { id, model }: Envelope,
  { thinking, stops, names }: AnswerOptions,
): object {
  const [choice] = body.choices;
  const blocks = choice === undefined ? [] : contentOf(choice.message, thinking, id);
  const content = names === undefined ? blocks : blocks.map((block) => withOwnName(block, names));
  const calls = content.some(({ type }) => type === "tool_use");
  const stop =
    choice === undefined
      ? notStopped
      : stopFields(
          { finish: choice.finish_reason, calls, refusal: choice.message.refusal ?? "", stoppedAt: stoppedAt(choice) },
          stops,
        );
  return { id, type: "message", role: "assistant", model, content, ...stop, usage: usageFields(body.usage, body) };
}

/** The blocks of a stream that gives the whole message at once. */
function contentOf(message: AnswerMessage, shown: ThinkingShown, id: string): JsonObject[] {
  const collected = new Collected();
  const blocks = new Blocks(collected, shown, id);
  const { thinking_blocks } = message;
  const delta = deltaOf(message);
  delete delta.thinking_blocks;
  if (shown !== "none" && thinking_blocks?.length) {
    blocks.native(thinking_blocks);
    delete delta.reasoning_content;
  }
  blocks.push(delta);
  blocks.finish();
  return collected.content;
}

/** Puts blocks together as an official client does. */
class Collected implements BlockSink {
  readonly content: JsonObject[] = [];
  #input = "";

  start(_index: number, block: JsonObject): void {
    this.content.push(block);
    this.#input = "";
  }

  delta(index: number, delta: JsonObject): void {
    const block = this.content[index]!;
    switch (delta["type"]) {
      case "text_delta":
        block["text"] += delta["text"] as string;
        return;
      case "thinking_delta":
        block["thinking"] += delta["thinking"] as string;
        return;
      case "citations_delta":
        block["citations"] = [...listOf(block["citations"]), delta["citation"]];
        return;
      case "signature_delta":
        block["signature"] = delta["signature"];
        return;
      case "input_json_delta":
        this.#input += delta["partial_json"] as string;
    }
  }

  stop(index: number): void {
    const block = this.content[index]!;
    if (block["type"] === "tool_use") block["input"] = inputOf(this.#input);
  }
}
