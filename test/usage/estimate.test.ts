import { expect, test } from "bun:test";
import { estimateMeter, estimatePrompt, estimateTexts } from "../../src/usage/estimate.ts";

const words = "The quick brown fox jumps over the lazy dog. ";

test("a text is counted by a tokenizer", async () => {
  expect(await estimateTexts([])).toBe(0);
  expect(await estimateTexts(["Hello, world!"])).toBe(4);
  // What would end a text elsewhere is a text.
  expect(await estimateTexts(["<|endoftext|>"])).toBeGreaterThan(4);
});

test("a long text is reckoned by its beginning", async () => {
  const one = await estimateTexts([words.repeat(1000)]);
  expect(one).toBeWithin(9500, 10_500);
  const many = await estimateTexts([words.repeat(100_000), words.repeat(100_000)]);
  expect(many).toBeWithin(190 * one, 210 * one);
});

test("a word that never ends holds nothing up", { timeout: 20_000 }, async () => {
  const began = performance.now();
  await estimateTexts(["a".repeat(5_000_000)]);
  expect(performance.now() - began).toBeLessThan(10_000);
});

test("a meter's sample stands for its text", async () => {
  const sampled = await estimateMeter({ length: words.length * 100, sample: [words] });
  expect(sampled).toBeWithin(900, 1200);
  expect(await estimateMeter({ length: 400, sample: [] })).toBe(100);
});

test("a prompt is its turns, its tools and its media", async () => {
  const model = "m";
  const user = (content: unknown) => ({ model, messages: [{ role: "user", content }] }) as never;
  const text = await estimatePrompt(user("Hello, world!"));
  expect(text).toBe(8);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  expect(await estimatePrompt(user([{ type: "text", text: "Hello, world!" }, image]))).toBe(1508);
  const file = { type: "file", file: { file_data: "A".repeat(50_000) } };
  expect(await estimatePrompt(user([file]))).toBe(2004);
  const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
  expect(await estimatePrompt({ ...(user("Hello, world!") as object), tools } as never)).toBeWithin(20, 60);
});
