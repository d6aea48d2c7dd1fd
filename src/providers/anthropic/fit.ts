/**
 * A client's own body as its model takes it. Claude Code sends system turns, adaptive thinking and efforts to whatever name it does not
 * know, and older models refuse them; what a model takes goes as it came.
 * Sources: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages,
 * https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting ("adaptive thinking is not supported on this model"),
 * https://github.com/anthropics/claude-code/issues/68551
 */

import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import { derive, isObject, type JsonObject, keepSame, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { Call } from "../provider.ts";
import { anthropicRules } from "./rules.ts";
import { canStartThinking, minBudget, nearestEffort, planThinking } from "./thinking.ts";
import { demandInWords } from "./tools.ts";

/** @returns the body itself where its model takes all of it */
export function fitted(body: JsonObject, call: Call): JsonObject {
  const rules = anthropicRules(call);
  const thinking = withFitThinking(body, call, rules);
  const own = call.isPersonas === true ? asPersonas(thinking, rules) : thinking;
  const edited = own === body && call.isPersonas !== true ? body : withoutThoughtEdits(own, rules);
  return withoutSystemTurns(edited, rules.system_turns);
}

/**
 * Where thinking was taken away, or turned off by a persona, edits of earlier thoughts go with it: "`clear_thinking_20251015` strategy
 * requires `thinking` to be enabled or adaptive": https://github.com/router-for-me/CLIProxyAPI/issues/4957
 */
function withoutThoughtEdits(body: JsonObject, { thinking_off }: AnthropicRules): JsonObject {
  const context = objectOf(body["context_management"]);
  const type = objectOf(body["thinking"])?.["type"];
  const isOff = type === "disabled" || (type === undefined && thinking_off === "omit");
  if (context === undefined || !isOff) return body;
  const edits = listOf(context["edits"]);
  const kept = edits.filter((edit) => textOf(objectOf(edit)?.["type"])?.startsWith("clear_thinking_") !== true);
  if (kept.length === edits.length) return body;
  const { context_management: _, ...rest } = body;
  return kept.length === 0 ? rest : { ...rest, context_management: { ...context, edits: kept } };
}

/** Without what the model refuses of a caller who does not know it: a persona's answer would be an error without the upstream's words. */
function asPersonas(body: JsonObject, rules: AnthropicRules): JsonObject {
  const next = { ...body };
  fitSampling(next, rules);
  fitChoice(next, rules);
  fitEnd(next, rules);
  if (Number(body["max_tokens"]) > rules.max_output) next["max_tokens"] = rules.max_output;
  return keepSame(body, next);
}

const samplingFields = ["temperature", "top_p", "top_k"];

/** https://platform.claude.com/docs/en/build-with-claude/thinking#feature-compatibility */
function fitSampling(next: JsonObject, { sampling }: AnthropicRules): void {
  const type = objectOf(next["thinking"])?.["type"];
  const isThinking = type === "enabled" || type === "adaptive";
  const isWide = Number(next["top_p"]) >= 0.95;
  for (const name of samplingFields) {
    if (sampling === "none" || (isThinking && !(name === "top_p" && isWide))) delete next[name];
  }
  if (sampling === "one" && next["temperature"] != null) delete next["top_p"];
}

/** Where a call can't be forced it is asked for. */
function fitChoice(next: JsonObject, { forced_tools }: AnthropicRules): void {
  const choice = objectOf(next["tool_choice"]);
  const type = choice?.["type"];
  if (forced_tools || (type !== "any" && type !== "tool")) return;
  const { name, ...others } = choice!;
  next["tool_choice"] = { ...others, type: "auto" };
  const text = demandInWords(type === "tool" ? textOf(name) : undefined);
  next["system"] = derive(listOf(next["system"]), [...blocksOf(next["system"]), { type: "text", text }]);
}

/** A last turn of the assistant's is the beginning of its answer, where the model allows that. */
function fitEnd(next: JsonObject, { prefill }: AnthropicRules): void {
  const turns = listOf(next["messages"]);
  const last = turns.at(-1);
  if (!isObject(last) || last["role"] !== "assistant") return;
  // https://platform.claude.com/docs/en/api/errors#prefill-not-supported
  const end = prefill ? [trimmedEnd(last)] : [last, { role: "user", content: [{ type: "text", text: "Continue." }] }];
  next["messages"] = derive(turns, [...turns.slice(0, -1), ...end]);
}

/** "final assistant content cannot end with trailing whitespace" */
function trimmedEnd(turn: JsonObject): JsonObject {
  const { content } = turn;
  if (typeof content === "string") return keepSame(turn, { ...turn, content: content.trimEnd() });
  const block = objectOf(listOf(content).at(-1));
  const text = block?.["type"] === "text" ? block["text"] : undefined;
  if (typeof text !== "string" || text === text.trimEnd()) return turn;
  return derive(turn, { ...turn, content: [...listOf(content).slice(0, -1), { ...block, text: text.trimEnd() }] });
}

function withFitThinking(body: JsonObject, call: Call, rules: AnthropicRules): JsonObject {
  const thinking = objectOf(body["thinking"]);
  const config = objectOf(body["output_config"]);
  const effort = config?.["effort"] ?? undefined;
  const isThinkingTaken = takesThinking(thinking?.["type"], rules);
  if (isThinkingTaken && (effort === undefined || rules.efforts.some((one) => one === effort))) return body;
  const next: JsonObject = { ...body };
  const plan = isThinkingTaken ? undefined : planThinking(call, rules, mayBudget(body));
  if (plan !== undefined) putThinking(next, plan.thinking);
  if (effort !== undefined || plan?.effort !== undefined) {
    const { effort: _, ...others } = config ?? {};
    const known = plan?.effort ?? nearestEffort(effort, rules.efforts);
    const fit = { ...others, ...(known !== undefined && { effort: known }) };
    if (Object.keys(fit).length > 0) next["output_config"] = fit;
    else delete next["output_config"];
  }
  return next;
}

function takesThinking(type: unknown, { thinking, thinking_off }: AnthropicRules): boolean {
  if (type === "adaptive") return thinking === "adaptive" || thinking === "both";
  if (type === "enabled") return thinking === "budget" || thinking === "both";
  return type !== "disabled" || (thinking_off !== "never" && thinking_off !== "between_tools");
}

/** A budget has to leave room for the answer, and excludes other sampling. */
function putThinking(next: JsonObject, planned: { type: string; budget_tokens?: number } | undefined): void {
  delete next["thinking"];
  if (planned === undefined) return;
  const { budget_tokens: budget } = planned;
  if (budget === undefined) {
    next["thinking"] = planned;
    return;
  }
  const room = Number(next["max_tokens"] ?? Number.POSITIVE_INFINITY) - 1;
  if (room < minBudget) return;
  next["thinking"] = { ...planned, budget_tokens: Math.min(budget, room) };
  for (const name of ["temperature", "top_k", "top_p"]) delete next[name];
}

/** A demanded call excludes thinking with a budget. */
function mayBudget({ tool_choice, messages }: JsonObject): boolean {
  const choice = objectOf(tool_choice)?.["type"];
  return choice !== "any" && choice !== "tool" && canStartThinking(listOf(messages).filter(isObject));
}

/**
 * System turns as text: the leading ones before the conversation, later ones at the end of the user's turn beside them.
 * @param isTaken whether the model takes those that end a user's turn
 */
export function withoutSystemTurns(body: JsonObject, isTaken: boolean): JsonObject {
  const said = listOf(body["messages"]);
  const refused = refusedTurns(said, isTaken);
  if (refused.size === 0) return body;
  const leading: unknown[] = [];
  const turns: unknown[] = [];
  let held: unknown[] = [];
  const release = () => {
    if (held.length > 0) turns.push({ role: "user", content: held });
    held = [];
  };
  for (const turn of said) {
    const last = turns.at(-1);
    if (isSystemTurn(turn) && refused.has(turn)) {
      if (last === undefined) leading.push(...blocksOf(turn["content"]));
      else if (isUserTurn(last) && held.length === 0) turns[turns.length - 1] = joined(last, blocksOf(turn["content"]));
      else held.push(...blocksOf(turn["content"]));
    } else if (held.length > 0 && isUserTurn(turn)) {
      turns.push(joined(turn, held));
      held = [];
    } else {
      release();
      turns.push(turn);
    }
  }
  release();
  if (turns.length === 0) return { ...body, messages: derive(said, [{ role: "user", content: leading }]) };
  const system = leading.length === 0 ? {} : { system: [...blocksOf(body["system"]), ...leading] };
  return { ...body, ...system, messages: derive(said, turns) };
}

/** @returns the system turns that do not end a turn of the user's, one or several in a row */
function refusedTurns(said: readonly unknown[], isTaken: boolean): ReadonlySet<unknown> {
  const refused = new Set<unknown>();
  let before: unknown;
  let row: unknown[] = [];
  for (const turn of [...said, assistant]) {
    if (roleOf(turn) === "system") {
      row.push(turn);
      continue;
    }
    const arePlaced = isTaken && isUserTurn(before) && roleOf(turn) === "assistant";
    if (!arePlaced) for (const one of row) if (isSystemTurn(one)) refused.add(one);
    row = [];
    before = turn;
  }
  return refused;
}

/** True for a turn of texts: another part of a system turn changes the conversation's tools, which no other turn can do. */
function isSystemTurn(turn: unknown): turn is JsonObject {
  if (!isObject(turn) || turn["role"] !== "system") return false;
  const { content } = turn;
  return typeof content === "string" || listOf(content).every((block) => objectOf(block)?.["type"] === "text");
}

const assistant = { role: "assistant" };
const roleOf = (turn: unknown) => objectOf(turn)?.["role"];
const isUserTurn = (turn: unknown): turn is JsonObject => isObject(turn) && turn["role"] === "user";

const joined = (turn: JsonObject, more: readonly unknown[]): JsonObject =>
  derive(turn, { ...turn, content: [...blocksOf(turn["content"]), ...more] });

/** An empty text is refused as a block. */
function blocksOf(content: unknown): readonly unknown[] {
  if (typeof content !== "string") return listOf(content);
  return content.trim() === "" ? [] : [{ type: "text", text: content }];
}
