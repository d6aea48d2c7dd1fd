/** A budget is not passed by through reports that say nothing. */
import { expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const event = (value: { readonly type: string }) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const answer = (end: object) =>
  sseResponse(
    [
      {
        type: "message_start",
        message: {
          ...{ id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null },
          usage: { input_tokens: 100_000, output_tokens: 1 },
        },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: end },
      { type: "message_stop" },
    ].map(event),
  );

test.each([
  ["zeros", { input_tokens: 0, output_tokens: 64 }],
  ["the same again", { input_tokens: 100_000, output_tokens: 64 }],
  ["no word of the prompt", { output_tokens: 64 }],
])("a dollar pays for as many calls, whether the end says %s", async (_, end) => {
  using upstream = new UpstreamServer(() => answer(end));
  await using troupe = await Troupe.start({ providers: { anthropic: { baseUrl: upstream.url } } });
  const { store } = troupe.server.services;
  await store.budgets.set({ scope: "all", period: "prepaid", limit: 1_000_000, updatedAt: 1 });
  const statuses: number[] = [];
  for (let at = 0; at < 12; at += 1) {
    const answered = await troupe.post("/gateway/v1/messages", {
      model: "anthropic/claude-sonnet-4-5",
      max_tokens: 8000,
      stream: true,
      messages: [{ role: "user", content: "hi" }],
    });
    await answered.text();
    statuses.push(answered.status);
    await troupe.server.services.ledger.flush();
  }
  // $0.301 each, and $0.12 reserved: 0.903 leaves no room.
  expect(statuses).toEqual([200, 200, 200, ...Array.from({ length: 9 }, () => 429)]);
});
