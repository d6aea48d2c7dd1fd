/** What knowledge and a lorebook add to messages. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { FoundSection } from "../../../src/lib/text/sections.ts";
import { estimateTokens } from "../../../src/lib/text/token-estimate.ts";
import { additionsOf, withInsertions } from "../../../src/personas/knowledge/additions.ts";
import { activeEntries } from "../../../src/personas/knowledge/lorebook.ts";
import { toLorebook } from "../../../src/personas/knowledge/schema.ts";
import { chooseSections, writeSections } from "../../../src/personas/knowledge/sections.ts";
import { questionIn } from "../../../src/personas/knowledge/texts.ts";
import type { Message } from "../../../src/protocols/chat/schema.ts";
import { runs } from "../../helpers/long-form.ts";

const section = (text: string, more: Partial<FoundSection> = {}): FoundSection => ({
  file: "docs/a.md",
  heading: "A",
  firstLine: 1,
  lastLine: text.split("\n").length,
  text,
  score: 1,
  ...more,
});
const user = (content: unknown) => ({ role: "user", content }) as Message;
const assistant = (content: string) => ({ role: "assistant", content }) as Message;
const none = new Map<string, string>();

describe("sections", () => {
  test("all that is put never exceeds the budget nor the number", () => {
    const sections = fc.array(
      fc.record({
        text: fc.string({ unit: "grapheme", minLength: 1, maxLength: 3000 }),
        heading: fc.string({ unit: "binary", maxLength: 100 }),
        file: fc.string({ maxLength: 50 }),
      }),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(
        sections,
        fc.integer({ min: 50, max: 3000 }),
        fc.integer({ min: 1, max: 6 }),
        (made, tokens, most) => {
          const found = made.map(({ text, ...more }) => section(text, more));
          const chosen = chooseSections(found, { files: [], tokens, sections: most });
          expect(estimateTokens(writeSections(chosen))).toBeLessThanOrEqual(tokens);
          expect(chosen.length).toBeLessThanOrEqual(most);
        },
      ),
      { numRuns: runs(500) },
    );
  });

  test("a long one gives way to the next; the best alone is cut", () => {
    const long = section("long words ".repeat(100));
    const short = section("short");
    expect(chooseSections([long, short], { files: [], tokens: 100, sections: 5 })).toEqual([short]);
    const [cut] = chooseSections([long], { files: [], tokens: 60, sections: 5 });
    expect(cut!.text).toMatch(/^(?:long words )+long(?: words)?\n…$/);
  });

  test("names are escaped", () => {
    expect(writeSections([section("x", { heading: 'A "b" & c\nd', file: "a&b.md" })])).toBe(
      '<knowledge>\n<section source="a&amp;b.md" heading="A &quot;b&quot; &amp; c d" lines="1-1">\nx\n</section>\n</knowledge>',
    );
  });
});

test("the question is the latest user message's text, of all its parts", () => {
  expect(
    questionIn([user("a"), user([{ type: "text", text: "b" }, { type: "image_url" }, { type: "text", text: "c" }])]),
  ).toBe("b\nc");
  expect(questionIn([user("a"), assistant("b"), { role: "tool", tool_call_id: "x", content: "c" } as Message])).toBe(
    "a",
  );
  expect(questionIn([assistant("b")])).toBe("");
});

describe("a lorebook", () => {
  type Field = Parameters<typeof toLorebook>[0];
  const active = (field: Field, ...messages: Message[]) =>
    activeEntries(toLorebook(field)!, messages, none).map(({ text }) => text);

  test("keys are plain text of the latest messages of user and model", () => {
    const field: Field = [
      { keys: ["a.c"], content: "dots" },
      { keys: ["Cat"], content: "cat" },
      { keys: ["Dog"], case_sensitive: true, content: "dog" },
      { keys: ["x"], secondary_keys: ["y", "z"], content: "both" },
    ];
    expect(active(field, user("abc"))).toEqual([]);
    expect(active(field, user("a.c and a CERTIFICATE, dog"))).toEqual(["dots", "cat"]);
    expect(active(field, user("x"))).toEqual([]);
    expect(active(field, user("x"), assistant("Z"))).toEqual(["both"]);
    expect(active(field, { role: "system", content: "cat" } as Message, user("?"))).toEqual([]);
  });

  test("beyond its budget the lowest priorities go, and what stays keeps its order", () => {
    const entries = [
      { constant: true, content: "a".repeat(40), order: 3, priority: 1 },
      { constant: true, content: "b".repeat(40), order: 1, priority: 9 },
      { constant: true, content: "c".repeat(40), order: 2, priority: 5 },
    ];
    expect(active({ entries, token_budget: 20 })).toEqual(["b".repeat(40), "c".repeat(40)]);
    const books = fc.record({
      entries: fc.array(
        fc.record({
          content: fc.string({ minLength: 1, maxLength: 300 }),
          constant: fc.constant(true),
          order: fc.integer(),
          priority: fc.integer(),
        }),
        { minLength: 1, maxLength: 10 },
      ),
      token_budget: fc.integer({ min: 1, max: 200 }),
    });
    fc.assert(
      fc.property(books, (book) => {
        const tokens = activeEntries(toLorebook(book as Field)!, [], none).map((one) => one.tokens);
        expect(tokens.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(book.token_budget);
      }),
    );
  });

  test("entries lead to others four rounds deep, and where it is asked for alone", () => {
    const entries = Array.from({ length: 8 }, (_, at) => ({ keys: [`k${at};`], content: `k${at + 1};` }));
    expect(active({ entries, recursive_scanning: true }, user("k0;"))).toEqual(["k1;", "k2;", "k3;", "k4;"]);
    expect(active({ entries }, user("k0;"))).toEqual(["k1;"]);
  });

  test.each([
    [
      "any",
      [
        ["ab", true],
        ["a", true],
        ["b", true],
        ["", false],
      ],
    ],
    [
      "all",
      [
        ["ab", true],
        ["a", false],
        ["b", false],
        ["", false],
      ],
    ],
    [
      "not_any",
      [
        ["ab", false],
        ["a", false],
        ["b", false],
        ["", true],
      ],
    ],
    [
      "not_all",
      [
        ["ab", false],
        ["a", true],
        ["b", true],
        ["", true],
      ],
    ],
  ] as const)("%s of secondary keys", (secondary_logic, cases) => {
    const field: Field = [{ keys: ["key"], secondary_keys: ["a1", "b1"], secondary_logic, content: "x" }];
    for (const [said, isActive] of cases) {
      const text = [...said].map((letter) => `${letter}1`).join(" ");
      expect(active(field, user(`key ${text}`))).toEqual(isActive ? ["x"] : []);
      expect(active(field, user(text))).toEqual([]);
    }
  });

  test("whole words are no parts of longer ones, and phrases are found anywhere", () => {
    const field: Field = [
      { keys: ["art"], whole_words: true, content: "art" },
      { keys: ["a rt"], whole_words: true, content: "phrase" },
      { keys: ["art"], content: "part" },
    ];
    expect(active(field, user("start; a rtx"))).toEqual(["phrase", "part"]);
    expect(active(field, user("start, ART."))).toEqual(["art", "part"]);
  });

  test("an entry may look at more or fewer messages than its book", () => {
    const entries = [
      { keys: ["k"], content: "one", scan_depth: 1 },
      { keys: ["k"], content: "book" },
      { keys: ["k"], content: "three", scan_depth: 3 },
    ];
    const far = [user("k"), assistant("-"), user("-")];
    expect(active({ entries, scan_depth: 2 }, ...far)).toEqual(["three"]);
    expect(active({ entries, scan_depth: 2 }, ...far.slice(0, 2))).toEqual(["book", "three"]);
    expect(active({ entries, scan_depth: 2 }, user("k"))).toEqual(["one", "book", "three"]);
  });

  test("an entry may keep out of what leads to others", () => {
    const entries = [
      { keys: ["k"], content: "first" },
      { keys: ["k"], content: "silent second", prevent_recursion: true },
      { keys: ["first"], content: "led" },
      { keys: ["first"], content: "excluded", exclude_recursion: true },
      { keys: ["second"], content: "unled" },
      { keys: ["k"], content: "awaited", delay_until_recursion: true },
    ];
    expect(active({ entries, recursive_scanning: true }, user("k"))).toEqual([
      "first",
      "silent second",
      "led",
      "awaited",
    ]);
    expect(active({ entries }, user("k"))).toEqual(["first", "silent second"]);
  });

  test("many keys and a long text take no longer than their product", () => {
    const entries = Array.from({ length: 2000 }, (_, at) => ({ keys: [`(a+)+${at}$`, "a".repeat(200)], content: "x" }));
    const text = "a".repeat(199).concat("b").repeat(5000);
    expect(active({ entries }, user(text))).toEqual([]);
  });
});

describe("places", () => {
  const book = toLorebook([
    { keys: ["k"], content: "zero", depth: 0 },
    { keys: ["k"], content: "two", depth: 2 },
    { keys: ["k"], content: "far", depth: 900 },
  ])!;
  const messages = [user("1 k"), assistant("2"), user("3"), assistant("4"), user("5 k")];
  const added = additionsOf({ lorebook: book, knowledge: { files: [], tokens: 500, sections: 2 } }, messages, none, [
    section("S"),
  ])!;

  test("are user messages, counted from the end", () => {
    expect(added.within.map(({ message, user, users }) => [message, user, users])).toEqual([
      [4, 2, 3],
      [2, 1, 3],
      [0, 0, 3],
    ]);
    expect(withInsertions(messages, added.within).map(({ content }) => content)).toEqual([
      "<lorebook>\nfar\n</lorebook>\n\n1 k",
      "2",
      "<lorebook>\ntwo\n</lorebook>\n\n3",
      "4",
      `<lorebook>\nzero\n</lorebook>\n\n${writeSections([section("S")])}\n\n5 k`,
    ]);
  });

  test("without a message of the user there is none", () => {
    expect(additionsOf({ lorebook: book }, [assistant("k")], none, [])).toBeUndefined();
    expect(additionsOf({}, messages, none, [section("S")])).toBeUndefined();
  });
});
