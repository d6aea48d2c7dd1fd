/**
 * Times what is done with a large body, piece by piece, where nothing else runs: an agent's prompt as chat completions, passed on and translated to Messages.
 * `bun test/bench/body-pieces.ts [characters …]`, 16000 and 400000 where none are named. Prints microseconds, the quarter below the median of many.
 */

import { LargeStrings, minLargeString } from "../../src/lib/json/large-strings.ts";
import { JsonScan, noLimits } from "../../src/lib/json/scan.ts";
import { parseBounded } from "../../src/protocols/body/body.ts";
import { fillLarge, respell, restoreTranslated, type Source } from "../../src/protocols/body/source.ts";
import { chat } from "../../src/protocols/chat/chat.ts";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import { anthropic } from "../../src/providers/anthropic/anthropic.ts";
import { encodeBody } from "../../src/providers/anthropic/request.ts";
import type { Call } from "../../src/providers/provider.ts";
import { requestMeter } from "../../src/usage/tokens/text-meter.ts";
import { clientFormats } from "../helpers/client-formats.ts";
import { promptOf } from "./answer-shape.ts";

/** So many bytes are gone through in all. */
const maxBytes = 2e8;
const account = { name: anthropic.name, baseUrl: anthropic.baseUrl, modelRules: [], options: {} };

const sizes = process.argv.slice(2).map(Number);
for (const size of sizes.length === 0 ? [16_000, 400_000] : sizes) {
  const text = JSON.stringify({ model: "openai/gpt-4o", ...clientFormats.chat.body(promptOf("agent", size)) });
  const bytes: Uint8Array<ArrayBuffer> = new Uint8Array(Buffer.from(text));
  const times = new Map<string, number[]>();
  const timed = <T>(name: string, run: () => T): T => {
    const begun = Bun.nanoseconds();
    const result = run();
    const taken = Bun.nanoseconds() - begun;
    const known = times.get(name);
    if (known === undefined) times.set(name, [taken]);
    else known.push(taken);
    return result;
  };
  for (let round = 0; round < maxBytes / bytes.length; round += 1) {
    const scan = new JsonScan(noLimits, minLargeString);
    timed("scan of the bytes", () => scan.push(bytes));
    const large = timed("places of large strings", () => new LargeStrings([bytes], scan.largeStrings));
    await timed("check of UTF-8", () => large.check());
    const skeleton = timed("skeleton", () => large.skeleton());
    const parsed = timed("parse of the skeleton", () => parseBounded(skeleton, scan.hasOddNumbers)).parsed;
    const strings = timed("strings that may be omitted", () => chat.omittableTexts!(parsed));
    const passed = strings.everywhere;
    await timed("strings that are read", () => large.restore([parsed], [...passed, ...strings.natively]));
    const source: Source = { body: skeleton, parsed, large, passed };
    const request = timed("checks of the request", () => checkChatRequest(parsed));
    timed("estimate of tokens", () => requestMeter(request, source));
    const next = { ...parsed, model: "gpt-4o" };
    const patched = timed("native: model in the bytes", () => respell(source, next));
    timed("native: filling", () => fillLarge(source, patched));
    await restoreTranslated(source, request);
    const call = { model: "claude-sonnet-4-5", request, source, extras: {}, account };
    const body = timed("translated: the body", () => encodeBody({ ...call, media: new Map() } as unknown as Call));
    const written = timed("translated: writing", () => JSON.stringify(body));
    timed("translated: filling", () => fillLarge(source, written));
  }
  console.log(`\n${bytes.length} bytes`);
  for (const [name, taken] of times) {
    taken.sort((one, other) => one - other);
    console.log(`  ${name.padEnd(28)}${(taken[taken.length >> 2]! / 1000).toFixed(1)}`);
  }
}
