/**
 * A client's own body as its model takes it. Claude Code sends system turns, adaptive thinking and efforts to whatever name it does not
 * know, and older models refuse them; what a model takes goes as it came.
 * Sources: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages,
 * https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting ("adaptive thinking is not supported on this model"),
 * https://github.com/anthropics/claude-code/issues/68551
 */
import { derive, isObject, type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import type { Call } from "../provider.ts";
import { type AnthropicRules, anthropicRules } from "./rules.ts";
import { canStartThinking, minBudget, nearestEffort, planThinking } from "./thinking.ts";

/** @returns the body itself where its model takes all of it */
export function fitted(body: JsonObject, call: Call): JsonObject {
  const rules = anthropicRules(call);
  const thinking = withFitThinking(body, call, rules);
  return withoutSystemTurns(thinking, rules.system_turns);
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
  const isPlaced = (at: number) => isUserTurn(said[at - 1]) && roleOf(said[at + 1] ?? assistant) === "assistant";
  const refused = new Set(said.filter((turn, at) => isSystemTurn(turn) && !(isTaken && isPlaced(at))));
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
