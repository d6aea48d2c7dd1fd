import { describe, expect, test } from "bun:test";
import { SharedStates } from "../../src/conversations/shared-thinking-state.ts";
import { ReplayMemory } from "../../src/conversations/thinking-state.ts";
import type { AnswerMessage, ChatRequest } from "../../src/protocols/chat/schema.ts";
import { openStateRepository } from "../../src/store/sqlite/state-repository.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const call = (id: string) => ({ id, type: "function" as const, function: { name: "f", arguments: "{}" } });
const answer = (id: string, thought: string): AnswerMessage =>
  ({ role: "assistant", content: null, reasoning_content: thought, tool_calls: [call(id)] }) as AnswerMessage;
/** The next turn of a client that keeps what it knows and no more. */
const nextTurn = (id: string): ChatRequest => ({
  model: "m",
  messages: [
    { role: "assistant", content: null, tool_calls: [call(id)] },
    { role: "tool", tool_call_id: id, content: "done" },
  ],
});

function memoriesOn(path: string, clock: ManualClock, maxBytes = 1024 ** 2) {
  const rows = openStateRepository(path, maxBytes);
  return { rows, memory: new ReplayMemory(clock, new SharedStates(rows, clock, silentLogger)) };
}

const thoughtIn = (request: ChatRequest) => (request.messages[0] as { reasoning_content?: string }).reasoning_content;

describe("thinking state that processes share", () => {
  test("is found by another one, for its owner alone, for an hour", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const one = memoriesOn(folder.file("states.db"), clock);
    const other = memoriesOn(folder.file("states.db"), clock);
    one.memory.remember("key model", [answer("call_1", "hm")]);
    expect(thoughtIn(other.memory.restore("key model", nextTurn("call_1")))).toBe("hm");
    expect(thoughtIn(other.memory.restore("another", nextTurn("call_1")))).toBeUndefined();
    clock.advance(3_599_999);
    expect(thoughtIn(other.memory.restore("key model", nextTurn("call_1")))).toBe("hm");
    clock.advance(1);
    expect(thoughtIn(other.memory.restore("key model", nextTurn("call_1")))).toBeUndefined();
    one.memory.remember("key model", [answer("call_2", "so")]);
    expect(one.rows.count()).toBe(1);
    for (const { rows } of [one, other]) rows.close();
  });

  test("has a bound: what would end first goes first", () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const { rows, memory } = memoriesOn(folder.file("states.db"), clock, 512 * 1024);
    for (let at = 0; at < 1_000; at += 1) {
      clock.advance(1);
      memory.remember("k", [answer(`call_${at}`, "x".repeat(1_000))]);
    }
    expect(rows.count()).toBeGreaterThan(100);
    expect(rows.count()).toBeLessThan(600);
    expect(thoughtIn(memory.restore("k", nextTurn("call_999")))).toHaveLength(1_000);
    expect(thoughtIn(memory.restore("k", nextTurn("call_0")))).toBeUndefined();
    memory.remember("k", [answer("huge", "x".repeat(1024 ** 2))]);
    expect(thoughtIn(memory.restore("k", nextTurn("huge")))).toBeUndefined();
    rows.close();
  });

  test("that fails costs thoughts and nothing else", () => {
    using folder = new TempFolder();
    const { rows, memory } = memoriesOn(folder.file("states.db"), new ManualClock());
    rows.close();
    memory.remember("k", [answer("call_1", "hm")]);
    const request = nextTurn("call_1");
    expect(memory.restore("k", request)).toBe(request);
  });
});
