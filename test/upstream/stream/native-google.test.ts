/** Google's streams as they pass: what goes out, what is counted and what is found wrong is the same in any pieces. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { generateContent } from "../../../src/protocols/generate-content/generate-content.ts";
import type { StreamDecoder } from "../../../src/providers/provider.ts";
import { eventOf, googleDecoder, googleStream } from "../../helpers/google-events.ts";
import { runs } from "../../helpers/long-form.ts";
import { cutIn, passedThrough } from "../../helpers/passed-stream.ts";

const envelope = { id: "gen_1", created: 1, model: "ours" };
const passed = (parts: readonly Buffer[], reader: StreamDecoder, isCut: boolean) =>
  passedThrough(parts, reader, isCut, generateContent.native!.encoder(envelope, { isList: false } as never), true);

test("with any line ends and any fault: in any pieces bytes, counts and errors are what they are in one", () => {
  fc.assert(
    fc.property(
      googleStream,
      fc.option(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 30 }), { nil: undefined }),
      ({ events, how }, cuts) => {
        let bytes = Buffer.from(events.join(""));
        if (how === "cut") bytes = bytes.subarray(0, Math.floor(bytes.length * 0.7));
        const parts = cutIn(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
        const isCut = how === "cut";
        const [one, other] = [parts, [bytes]].map((given) => passed(given, googleDecoder(), isCut));
        // A comment passes with the event that it stands before, unless that has to be written anew.
        const withoutComments = ({ text, ...known }: ReturnType<typeof passed>) => ({
          ...known,
          text: text.replaceAll(/^: x\n/gm, ""),
        });
        expect(withoutComments(one!)).toEqual(withoutComments(other!));
      },
    ),
    { numRuns: runs(1500) },
  );
});

test.each(["\r\n", "\n"])("with line ends %j the last counts hold where a stream breaks", (lines) => {
  const texts = Array.from({ length: 20 }, (_, at) => eventOf("text", `${at};`, at * 100, lines));
  const broken = passed(
    texts.map((event) => Buffer.from(event)),
    googleDecoder(),
    true,
  );
  expect(broken.how).toBe("faulted");
  expect(broken.known[1]).toMatchObject({ prompt_tokens: 7, completion_tokens: 1900 });
  expect(broken.text).toStartWith(texts.join("").replaceAll("\r\n", "\n"));
});

test.each(["\r\n", "\n"])("with line ends %j a whole event is not held back for what has begun behind it", (lines) => {
  const [first, second, empty, begun] = ["a", "b", "", "c"].map((text, at) => eventOf("text", text, at, lines));
  const parts = [first!, second!, empty! + begun!.slice(0, 40)].map((text) => Buffer.from(text));
  const { text } = passed(parts, googleDecoder(), true);
  expect(text).toStartWith([first, second, empty].join("").replaceAll("\r\n", "\n"));
});
