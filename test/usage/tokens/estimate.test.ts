import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { estimateMeter, estimatePrompt, estimateTexts } from "../../../src/usage/tokens/estimate.ts";
import { Tokenizer } from "../../../src/usage/tokens/tokenizer.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";

const tokenizer = new Tokenizer(systemClock, silentLogger);
const how = { counter: tokenizer, deadlineMs: 30_000 };
/** A tokenizer that has no time. */
const late = { counter: { count: () => Promise.resolve(undefined) }, deadlineMs: 0 };
afterAll(() => tokenizer.close());

const tokensOf = async (texts: readonly string[]) => (await estimateTexts(texts, how)).tokens;

const words = "The quick brown fox jumps over the lazy dog. ";

test("a text is counted by a tokenizer", async () => {
  expect(await tokensOf([])).toBe(0);
  expect(await tokensOf(["Hello, world!"])).toBe(4);
  // What would end a text elsewhere is a text.
  expect(await tokensOf(["<|endoftext|>"])).toBeGreaterThan(4);
});

test("a long text is reckoned by its beginning", async () => {
  const one = await tokensOf([words.repeat(1000)]);
  expect(one).toBeWithin(9500, 10_500);
  const many = await tokensOf([words.repeat(100_000), words.repeat(100_000)]);
  expect(many).toBeWithin(190 * one, 210 * one);
});

test("a word that never ends holds nothing up", async () => {
  expect(await tokensOf(["a".repeat(5_000_000)])).toBe(625_000);
});

test("a meter's sample stands for its text", async () => {
  const { tokens, isReckoned } = await estimateMeter({ length: words.length * 100, sample: [words] }, how);
  expect(isReckoned).toBe(false);
  expect(tokens).toBeWithin(900, 1200);
  expect(await estimateMeter({ length: 400, sample: [] }, how)).toEqual({ tokens: 100, isReckoned: true });
});

test("a prompt is its turns, its tools and its media", async () => {
  const model = "m";
  const user = (content: unknown) => ({ model, messages: [{ role: "user", content }] }) as never;
  const tokensIn = async (request: never) => (await estimatePrompt(request, how)).tokens;
  expect(await tokensIn(user("Hello, world!"))).toBe(8);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  expect(await tokensIn(user([{ type: "text", text: "Hello, world!" }, image]))).toBe(1508);
  const file = { type: "file", file: { file_data: "A".repeat(50_000) } };
  expect(await tokensIn(user([file]))).toBe(2004);
  const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
  expect(await tokensIn({ ...(user("Hello, world!") as object), tools } as never)).toBeWithin(20, 60);
});

test("without a count, a text's bytes are gone by, and the estimate says so", async () => {
  expect(await estimateTexts([words], late)).toEqual({ tokens: 11, isReckoned: true });
  expect(await estimateTexts(["日本語の文章です"], late)).toEqual({ tokens: 6, isReckoned: true });
  // Of a long text its beginning is looked at.
  expect(await estimateTexts([words.repeat(100_000)], late)).toEqual({ tokens: 1_125_000, isReckoned: true });
  expect(await estimateMeter({ length: words.length * 10, sample: [words] }, late)).toEqual({
    tokens: 110,
    isReckoned: true,
  });
});
