/**
 * Reads the parts that whole and streamed answers of the Messages API have in common.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { isTooDeep, type JsonObject, objectOf, parseJson, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { UpstreamFault } from "../../protocols/errors.ts";
import { statusByType } from "../../protocols/messages/errors.ts";
import { idsFor, type MakeId } from "../made-ids.ts";
import type { AnsweredCall } from "../provider.ts";
import { planOutput } from "./output.ts";
import { anthropicRules } from "./rules.ts";
import { showsThoughts } from "./thinking.ts";
import { customToolNames } from "./tools.ts";

/** The parts of a request on which the reading of its answer depends. */
export type AnswerReading = {
  /** The tool whose input is the answer itself. */
  readonly answerTool: string | undefined;
  readonly customTools: ReadonlySet<string>;
  readonly showsThoughts: boolean;
  readonly makeId: MakeId;
};

export function readingFor(call: AnsweredCall): AnswerReading {
  const output = planOutput(call.request, anthropicRules(call));
  return {
    answerTool: output.kind === "tool" ? output.name : undefined,
    customTools: customToolNames(call.request),
    showsThoughts: showsThoughts(call),
    makeId: idsFor(call),
  };
}

/** Between two thoughts: they are separate blocks. */
export const thoughtSeparator = "\n\n";

/** The text that a custom tool's call carries in its only property. */
export function freeText(input: unknown): string {
  const { input: text, ...others } = objectOf(input) ?? { input: JSON.stringify(input) };
  if (typeof text === "string") return text;
  return text === undefined && Object.keys(others).length === 0 ? "" : JSON.stringify(input);
}

/** The upstream's explanation of its refusal, where it gives one. */
export function refusalOf({ stop_reason, stop_details }: JsonObject): { refusal?: string } {
  const explanation = textOf(objectOf(stop_details)?.["explanation"]);
  return stop_reason === "refusal" && explanation !== undefined && explanation !== "" ? { refusal: explanation } : {};
}

export function isError(answer: JsonObject): boolean {
  return answer["type"] === "error" || !saysNothing(answer["error"]);
}

/** @param text the error as it came */
export function errorFault(answer: JsonObject, text: string): UpstreamFault {
  const type = textOf(objectOf(answer["error"])?.["type"]) ?? "";
  return new UpstreamFault(text, ownMember(statusByType, type) ?? 500);
}

/** The text of a custom tool's call from its streamed JSON. */
export function freeTextFromJson(json: string): string {
  return freeText((isTooDeep(json) ? undefined : parseJson(json)) ?? json);
}
