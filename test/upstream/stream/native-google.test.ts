/** Google's streams whose fragments are copied as bytes: what goes out, what is counted and what is found wrong is what it is where each is parsed. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { generateContent } from "../../../src/protocols/generate-content/generate-content.ts";
import type { StreamDecoder } from "../../../src/providers/provider.ts";
import { eventOf, googleDecoder, googleStream } from "../../helpers/google-events.ts";
import { runs } from "../../helpers/long-form.ts";
import { cutIn, ParsedStream, passedThrough } from "../../helpers/passed-stream.ts";

const envelope = { id: "gen_1", created: 1, model: "ours" };
const passed = (parts: readonly Buffer[], reader: StreamDecoder, isCut: boolean) =>
  passedThrough(parts, reader, isCut, generateContent.native!.encoder(envelope, { isList: false } as never), true);

test("in any pieces, with any line ends and any fault: bytes, counts and errors are what they are where each event is parsed", () => {
  let copied = 0;
  fc.assert(
    fc.property(
      googleStream,
      fc.option(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 30 }), { nil: undefined }),
      ({ events, how }, cuts) => {
        let bytes = Buffer.from(events.join(""));
        if (how === "cut") bytes = bytes.subarray(0, Math.floor(bytes.length * 0.7));
        const parts = cutIn(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
        const { copied: some, ...told } = passed(parts, googleDecoder(), how === "cut");
        const { copied: none, ...expected } = passed(parts, new ParsedStream(googleDecoder()), how === "cut");
        expect([told, none]).toEqual([expected, 0]);
        copied += some;
      },
    ),
    { numRuns: runs(1500) },
  );
  expect(copied).toBeGreaterThan(300);
}, 60_000);

test.each(["\r\n", "\n"])(
  "with line ends %j all but the first fragment and the last are copied, and their last counts hold",
  (lines) => {
    const texts = Array.from({ length: 20 }, (_, at) => eventOf("text", `${at};`, at * 100, lines));
    const parts = texts.map((event) => Buffer.from(event));
    const broken = passed(parts, googleDecoder(), true);
    expect([broken.copied, broken.how]).toEqual([19, "faulted"]);
    expect(broken.known[1]).toMatchObject({ prompt_tokens: 7, completion_tokens: 1900 });
    expect(broken.text).toStartWith(texts.join("").replaceAll("\r\n", "\n"));
  },
);

test.each(["\r\n", "\n"])("with line ends %j a whole event is not held back for what has begun behind it", (lines) => {
  const [first, second, empty, begun] = ["a", "b", "", "c"].map((text, at) => eventOf("text", text, at, lines));
  const parts = [first!, second!, empty! + begun!.slice(0, 40)].map((text) => Buffer.from(text));
  const { text, copied } = passed(parts, googleDecoder(), true);
  expect(copied).toBe(1);
  expect(text).toStartWith([first, second, empty].join("").replaceAll("\r\n", "\n"));
});
