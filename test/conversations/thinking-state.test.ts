import { describe, expect, test } from "bun:test";
import { ReplayMemory } from "../../src/conversations/thinking-state.ts";
import type { AnswerMessage, AssistantMessage, ChatRequest, Message } from "../../src/protocols/chat/schema.ts";
import { ManualClock } from "../helpers/manual-clock.ts";

const call = (id: string) => ({ id, type: "function" as const, function: { name: "f", arguments: "{}" } });
const blocks = [{ type: "thinking" as const, thinking: "t", signature: "s" }];
const answer = (id: string): AnswerMessage => ({
  role: "assistant",
  content: null,
  thinking_blocks: blocks,
  tool_calls: [{ ...call(id), extra_content: { google: { thought_signature: "g" } } }, call(`${id}-2`)],
});
const request = (...messages: Message[]): ChatRequest => ({ model: "m", messages });
const stripped = (id: string): Message => ({
  role: "assistant",
  content: null,
  tool_calls: [call(id), call(`${id}-2`)],
});

describe("ReplayMemory", () => {
  test("gives back what a client's library stripped", () => {
    const memory = new ReplayMemory(new ManualClock());
    memory.remember("k", [answer("a")]);
    const restored = memory.restore("k", request({ role: "user", content: "x" }, stripped("a")));
    expect(restored.messages[1] as unknown).toEqual({ ...answer("a") });
  });

  test("a call's id may be a word that every object knows", () => {
    const memory = new ReplayMemory(new ManualClock());
    const [first] = answer("a").tool_calls!;
    memory.remember("k", [{ ...answer("a"), tool_calls: [first!, call("constructor"), call("__proto__")] }]);
    const echoed = {
      role: "assistant",
      content: null,
      tool_calls: [call("a"), call("constructor"), call("__proto__")],
    };
    const restored = memory.restore("k", request(echoed as Message)).messages[0] as AssistantMessage;
    expect(restored.tool_calls as unknown).toEqual([first, call("constructor"), call("__proto__")]);
  });

  test("what the client carried itself stands, only the rest is filled in", () => {
    const memory = new ReplayMemory(new ManualClock());
    memory.remember("k", [answer("a")]);
    const carried: AssistantMessage = { ...(stripped("a") as AssistantMessage), thinking_blocks: [] };
    expect(memory.restore("k", request(carried)).messages[0]).toMatchObject({ thinking_blocks: [] });
  });

  test("what OpenRouter signs, and thoughts alone, are kept too", () => {
    const details = [{ type: "reasoning.text", text: "t", format: "anthropic-claude-v1", signature: "s", index: 0 }];
    const memory = new ReplayMemory(new ManualClock());
    const message = { role: "assistant" as const, content: null, tool_calls: [call("a")] };
    memory.remember("k", [{ ...message, reasoning_details: details, reasoning_content: "t" }]);
    expect(memory.restore("k", request(message)).messages).toEqual([
      { ...message, reasoning_details: details, reasoning_content: "t" } as Message,
    ]);
  });

  test("another key's or another model's state is never given", () => {
    const memory = new ReplayMemory(new ManualClock());
    memory.remember("k", [answer("a")]);
    const asked = request(stripped("a"));
    expect(memory.restore("other", asked)).toBe(asked);
  });

  test("forgets after an hour", () => {
    const clock = new ManualClock();
    const memory = new ReplayMemory(clock);
    memory.remember("k", [answer("a")]);
    const asked = request(stripped("a"));
    clock.advance(3_600_000 - 1);
    expect(memory.restore("k", asked)).not.toBe(asked);
    clock.advance(1);
    expect(memory.restore("k", asked)).toBe(asked);
  });

  test("keeps a bounded number: the oldest go first", () => {
    const memory = new ReplayMemory(new ManualClock());
    for (let at = 0; at <= 5000; at += 1) memory.remember("k", [answer(`c${at}`)]);
    const oldest = request(stripped("c0"));
    expect(memory.restore("k", oldest)).toBe(oldest);
    const newest = request(stripped("c5000"));
    expect(memory.restore("k", newest)).not.toBe(newest);
  });

  test("an answer without tool calls or without state is not kept", () => {
    const memory = new ReplayMemory(new ManualClock());
    memory.remember("k", [{ role: "assistant", content: "x", tool_calls: [call("a")] }]);
    memory.remember("k", [{ role: "assistant", content: "x", thinking_blocks: blocks }]);
    const asked = request(stripped("a"));
    expect(memory.restore("k", asked)).toBe(asked);
  });
});
