/** What a request's text is measured to be where strings of it are left out. */
import { expect, test } from "bun:test";
import { LargeStrings } from "../../../src/lib/json/large-strings.ts";
import { JsonScan, noLimits } from "../../../src/lib/json/scan.ts";
import { chat } from "../../../src/protocols/chat/chat.ts";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { requestMeter } from "../../../src/usage/tokens/text-meter.ts";

const parameters = { type: "object", properties: { q: { type: "string" } } };
const tool = (description: string) => ({ type: "function", function: { name: "look_up", description, parameters } });

test.each([
  ["words", "The quick brown fox. "],
  ["lines", "a line\n"],
  ["Chinese", "這是一個很長的句子。"],
  ["both", "これは a test です "],
])("%s that are left out count like those that are there", async (_, filling) => {
  const said = (characters: number) => filling.repeat(Math.ceil(characters / filling.length));
  const body = JSON.stringify({
    model: "x",
    messages: [
      { role: "system", content: said(5000) },
      { role: "user", content: [{ type: "text", text: said(3000) }] },
      { role: "assistant", tool_calls: [{ id: "1", function: { name: "f", arguments: said(2000) } }] },
      { role: "tool", tool_call_id: "1", content: said(9000) },
    ],
    tools: [tool(said(4000))],
  });
  const bytes = new Uint8Array(Buffer.from(body));
  const scan = new JsonScan(noLimits, 1000);
  scan.push(bytes);
  const large = new LargeStrings([bytes], scan.largeStrings);
  const skeleton = large.skeleton();
  const leftOut = JSON.parse(Buffer.from(skeleton).toString());
  const { everywhere, natively } = chat.omittableTexts!(leftOut);
  await large.restore([leftOut], [...everywhere, ...natively]);
  expect(large.restoredBytes).toBe(0);
  const meter = requestMeter(leftOut as ChatRequest, { body: skeleton, parsed: leftOut, large });
  const parsed = JSON.parse(body);
  const whole = requestMeter(parsed as ChatRequest, { body, parsed });
  const asBytes = requestMeter(parsed as ChatRequest, { body: bytes, parsed });
  expect(asBytes.length / whole.length).toBeGreaterThan(0.9);
  expect(asBytes.length / whole.length).toBeLessThan(1.1);
  expect(meter.length / whole.length).toBeGreaterThan(0.9);
  expect(meter.length / whole.length).toBeLessThan(1.15);
  expect(meter.sample).toEqual(whole.sample);
});
