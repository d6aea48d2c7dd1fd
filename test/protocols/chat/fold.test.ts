import { expect, test } from "bun:test";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChunkBody } from "../../../src/protocols/chat/schema.ts";

test("a call of an unknown kind is whole, whatever its members are named", () => {
  const fold = new StreamFold();
  const pieces = [
    '{"index":0,"id":"c","type":"odd","odd":{"constructor":{"a":"x"},"toString":"1","__proto__":"p"}}',
    '{"index":0,"odd":{"toString":"2","text":"y"}}',
    '{"index":0,"odd":{"__proto__":"q","constructor":{"a":"z"}}}',
  ];
  for (const piece of pieces) {
    const body = `{"choices":[{"index":0,"delta":{"tool_calls":[${piece}]},"finish_reason":null}]}`;
    fold.push([JSON.parse(body) as ChunkBody]);
  }
  expect(JSON.stringify(fold.result().choices[0]?.message.tool_calls)).toBe(
    '[{"id":"c","type":"odd","odd":{"constructor":{"a":"xz"},"toString":"12","__proto__":"pq","text":"y"}}]',
  );
});
