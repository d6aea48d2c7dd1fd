/** A normalised stream as events of this format, numbered from 0. */
import type { JsonObject } from "../../lib/json/json.ts";
import { formatSseEvent } from "../../lib/streams/sse.ts";
import { addedMetadata } from "../added-metadata.ts";
import { plainText } from "../chat/plain-text.ts";
import type { ChunkBody, Envelope, FinishReason, Metadata, Usage } from "../chat/schema.ts";
import type { ErrorFields, EventEncoder } from "../protocol.ts";
import { endOf, type ResponseStatus } from "./ending.ts";
import { errorMembers, responseError } from "./errors.ts";
import { type ResponseState, responseObject } from "./object.ts";
import type { ResponsesOptions } from "./options.ts";
import { Output } from "./output.ts";
import { ToolNames } from "./tools.ts";

const deltaHead = 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":';
const deltaTail = ',"logprobs":[]}\n\n';

export class ResponsesEncoder implements EventEncoder {
  readonly isKept = true;
  readonly #envelope: Envelope;
  readonly #options: ResponsesOptions;
  readonly #output: Output;
  #number = 0;
  /** The list that the events of the chunk are added to. */
  #events: string[] = [];
  #begun = false;
  #finish: FinishReason | undefined;
  #usage: Usage | undefined;
  #serviceTier: unknown;
  #metadata: Metadata | undefined;
  /** The text part that the latest fragment continued, and what stands between the number and the text of its events. */
  #part: { text: string } | undefined;
  #place = "";

  constructor(envelope: Envelope, options: ResponsesOptions) {
    this.#envelope = envelope;
    this.#options = options;
    const announce = (type: string, fields: JsonObject) => this.#event(type, fields);
    this.#output = new Output(envelope.id, new ToolNames(options.tools, options.added), announce);
  }

  push(chunk: ChunkBody, events: string[]): void {
    const [choice] = chunk.choices;
    if (choice !== undefined && chunk.choices.length === 1) {
      const text = plainText(choice);
      if (text !== undefined && this.#pushText(text, events)) return;
    }
    this.#events = events;
    this.#begin();
    if (chunk.service_tier !== undefined) this.#serviceTier = chunk.service_tier;
    if (chunk.usage != null) this.#usage = chunk.usage;
    if (chunk.metadata !== undefined) this.#metadata = addedMetadata(chunk.metadata);
    if (chunk.ended_thought !== undefined) this.#output.endThought(chunk.ended_thought);
    // Other choices have no place here, and are not asked for.
    if (choice === undefined || choice.index !== 0) return;
    this.#output.push(choice.delta, choice.logprobs);
    if (choice.finish_reason === null || this.#finish !== undefined) return;
    this.#finish = choice.finish_reason;
    this.#output.finish(choice.finish_reason);
  }

  end(events: string[]): void {
    this.#events = events;
    this.#begin();
    const { status, reason } = endOf(this.#finish ?? "stop", this.#output.hasRefused);
    this.#last(status, { reason });
  }

  /** The event of the error itself, at which most clients stop, and the one that ends every stream. */
  fault(error: ErrorFields, events: string[]): void {
    this.#events = events;
    const { code, message } = responseError(error);
    this.#event("error", errorMembers(error));
    this.#last("failed", { error: { code, message } });
  }

  /** @returns whether the text continues the part that is open */
  #pushText(text: string, events: string[]): boolean {
    const part = this.#output.openText;
    if (part === undefined) return false;
    if (this.#part !== part) {
      this.#part = part;
      this.#place = `,${JSON.stringify(this.#output.openPlace).slice(1, -1)},"delta":`;
    }
    part.text += text;
    events.push(`${deltaHead}${this.#number}${this.#place}${JSON.stringify(text)}${deltaTail}`);
    this.#number += 1;
    return true;
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    const response = this.#response("in_progress", {});
    this.#event("response.created", { response });
    this.#event("response.in_progress", { response });
  }

  #last(status: ResponseStatus, state: ResponseState): void {
    const { items: output } = this.#output;
    const said = { usage: this.#usage, serviceTier: this.#serviceTier, metadata: this.#metadata };
    const response = this.#response(status, { ...state, output, ...said });
    this.#event(`response.${status}`, { response });
  }

  #response(status: ResponseStatus, state: ResponseState): JsonObject {
    return responseObject(state, this.#envelope, this.#options, status);
  }

  #event(type: string, fields: JsonObject): void {
    this.#events.push(formatSseEvent(JSON.stringify({ type, sequence_number: this.#number, ...fields }), type));
    this.#number += 1;
  }
}
