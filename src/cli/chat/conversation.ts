/** A conversation: what was said, and what each call of it asks. */
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import type { CompletionBody, Usage } from "../../protocols/chat/schema.ts";
import { UsageError } from "../context.ts";

type Turn = { readonly role: string; readonly [field: string]: unknown };

export class ChatConversation {
  /** The caller's own system text. */
  system: string | undefined;
  /** Fields of each request. */
  fields: JsonObject;
  turns: Turn[] = [];
  #usage = { calls: 0, input: 0, output: 0, cost: 0 };

  constructor(system: string | undefined, fields: JsonObject) {
    this.system = system;
    this.fields = fields;
  }

  /** The request with one more question. */
  body(model: string): JsonObject {
    const system = this.system === undefined ? [] : [{ role: "system", content: this.system }];
    return { ...this.fields, model, usage: { include: true }, messages: [...system, ...this.turns] };
  }

  ask(content: string): void {
    this.turns.push({ role: "user", content });
  }

  /** Takes the answer; where it says nothing, the question goes too. */
  take({ choices, usage }: CompletionBody): void {
    const message = choices[0]?.message;
    const isSaid = message !== undefined && (message.content || message.tool_calls);
    if (isSaid) this.turns.push(message as Turn);
    else this.dropQuestion();
    if (usage !== undefined) this.#count(usage);
  }

  dropQuestion(): void {
    if (this.turns.at(-1)?.role === "user") this.turns.pop();
  }

  /** Removes the last answer, so that its question can be asked again. @returns false where there is none */
  retract(): boolean {
    const at = this.turns.findLastIndex(({ role }) => role === "user");
    if (at < 0) return false;
    this.turns.length = at + 1;
    return true;
  }

  clear(): void {
    this.turns = [];
  }

  usage(): string {
    const { calls, input, output, cost } = this.#usage;
    const dollars = cost > 0 ? `, $${cost.toFixed(6).replace(/0{1,4}$/, "")}` : "";
    return `${calls} ${calls === 1 ? "answer" : "answers"}: ${input} tokens in, ${output} out${dollars}`;
  }

  save(model: string): string {
    const { system, fields, turns } = this;
    return `${JSON.stringify({ model, system, fields, messages: turns }, null, 2)}\n`;
  }

  /** @returns the model that it was held with, if the file names one @throws UsageError */
  load(text: string, file: string): string | undefined {
    const saved = parseJson(text);
    const messages = isObject(saved) ? saved["messages"] : saved;
    if (!Array.isArray(messages) || !messages.every((one) => isObject(one) && typeof one["role"] === "string"))
      throw new UsageError(`${file} holds no saved conversation.`);
    this.turns = messages;
    if (!isObject(saved)) return undefined;
    this.system = typeof saved["system"] === "string" ? saved["system"] : undefined;
    if (isObject(saved["fields"])) this.fields = saved["fields"];
    return typeof saved["model"] === "string" ? saved["model"] : undefined;
  }

  #count({ prompt_tokens: input, completion_tokens: output, ...rest }: Usage): void {
    const { cost } = rest as { cost?: unknown };
    this.#usage.calls += 1;
    this.#usage.input += input;
    this.#usage.output += output;
    if (typeof cost === "number") this.#usage.cost += cost;
  }
}
