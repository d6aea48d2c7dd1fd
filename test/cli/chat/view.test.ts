import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { blockLength, MarkdownView, PlainView } from "../../../src/cli/chat/view.ts";
import { runs } from "../../helpers/long-form.ts";

/** A terminal of the sequences that the view writes: what is above the screen can't be reached any more. */
class FakeScreen {
  readonly columns: number;
  readonly rows: number;
  written = "";
  #lines = [""];
  #row = 0;
  #column = 0;

  constructor(columns = 80, rows = 24) {
    this.columns = columns;
    this.rows = rows;
  }

  write(text: string): void {
    this.written += text;
    for (const [piece] of text.matchAll(/\x1b\[[0-9;]*[A-Za-z]|[\s\S]/gu)) {
      const up = /^\x1b\[(\d+)A$/.exec(piece);
      if (up !== null) this.#row = Math.max(this.#top, this.#row - Number(up[1]));
      else if (piece === "\x1b[J")
        this.#lines = [...this.#lines.slice(0, this.#row), this.#line.slice(0, this.#column)];
      else if (piece === "\r") this.#column = 0;
      else if (piece === "\n") {
        this.#row += 1;
        this.#column = 0;
        this.#lines[this.#row] ??= "";
      } else if (!/^\x1b\[[0-9;]*m$/.test(piece)) this.#put(piece);
    }
  }

  get #top(): number {
    return Math.max(0, this.#lines.length - this.rows);
  }

  get #line(): string {
    return this.#lines[this.#row] ?? "";
  }

  #put(character: string): void {
    if (this.#column >= this.columns) this.write("\n");
    this.#lines[this.#row] = this.#line.slice(0, this.#column) + character;
    this.#column += character.length;
  }

  get text(): string {
    return this.#lines
      .map((line) => line.trimEnd())
      .join("\n")
      .trimEnd();
  }
}

function shown(pieces: readonly string[], screen = new FakeScreen()): FakeScreen {
  const view = new MarkdownView(screen);
  for (const piece of pieces) view.text(piece);
  view.end();
  return screen;
}

const answer = `# Title

A paragraph with **bold**,
and a second line.

- one
- two
  - three

\`\`\`ts
const a = 1;

const b = 2;
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

The end.`;

describe("Markdown", () => {
  test("is rendered, with the ends of lines where they are", () => {
    expect(shown([answer]).text).toBe(
      [
        "Title",
        "═════",
        "",
        "A paragraph with bold,",
        "and a second line.",
        "",
        "  • one",
        "  • two",
        "      • three",
        "",
        "┌─ ts",
        "│ const a = 1;",
        "│",
        "│ const b = 2;",
        "└─",
        "",
        "┌─────┬─────┐",
        "│ a   │ b   │",
        "├─────┼─────┤",
        "│ 1   │ 2   │",
        "└─────┴─────┘",
        "",
        "The end.",
      ].join("\n"),
    );
  });

  test("gives the same screen however it is cut, and however small the screen is", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...answer.split(/(?<=\n)/), "word ".repeat(30), "\n\n", "```\n", "x"), {
          maxLength: 20,
        }),
        fc.array(fc.nat(2000), { maxLength: 30 }),
        fc.integer({ min: 3, max: 30 }),
        (parts, cuts, rows) => {
          const text = parts.join("");
          const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
          const pieces = places.slice(1).map((end, at) => text.slice(places[at]!, end));
          expect(shown(pieces, new FakeScreen(80, rows)).text).toBe(shown([text], new FakeScreen(80, rows)).text);
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test("is shown while it comes", () => {
    const screen = new FakeScreen();
    const view = new MarkdownView(screen);
    view.text("One **tw");
    expect(screen.text).toBe("One **tw");
    view.text("o** three");
    expect(screen.text).toBe("One two three");
  });

  test("thinking is dimmed, and stands apart", () => {
    const screen = new FakeScreen();
    const view = new MarkdownView(screen);
    view.thinking("Let me ");
    view.thinking("see.");
    view.text("Yes.");
    view.note("→ look({})");
    view.end();
    expect(screen.text).toBe("Let me see.\n\nYes.\n\n→ look({})");
    expect(screen.written).toStartWith("\x1b[2mLet me \x1b[22m");
  });
});

/** What the view may write: styles, and going back over what it drew. */
const ownSequences = /\x1b\[[0-9;]*m|\x1b\[\d+A|\r(?=\x1b\[)|\x1b\[J/g;
const controls = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]/;

describe("control characters of an answer", () => {
  const hostile = [
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x9b31m",
    "\x1bP+q\x1b\\",
    "over\rwritten",
    "&#27;[8m &#x1b;]0;x&#7; &#x9b;1m",
    "`\x1b[31m`",
    "```\n\x1b[31m\n```\n",
    "[link\x1b](http://a\x1b]8;;b)",
    "\u202egnp.exe",
    "a\b\b\bb\x7f",
    "\r\n",
    "text",
  ];

  test("never reach the terminal", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...hostile), { maxLength: 8 }), fc.boolean(), (parts, isThinking) => {
        const screen = new FakeScreen();
        const view = new MarkdownView(screen);
        for (const part of parts) {
          if (isThinking) view.thinking(part);
          else view.text(part);
          view.note(part);
        }
        view.end();
        expect(screen.written.replaceAll(ownSequences, "")).not.toMatch(controls);
        let plain = "";
        const pipe = new PlainView((text) => {
          plain += text;
        });
        for (const part of parts) pipe.text(part);
        pipe.end();
        expect(plain).not.toMatch(controls);
      }),
      { numRuns: runs(500) },
    );
  });

  test("no style of the answer's own, in words that Markdown decodes", () => {
    const plain = shown(["visible [8mhidden"]).written;
    expect(shown(["visible &#27;[8mhidden"]).written).toBe(plain);
  });

  test("are shown in place", () => {
    expect(shown(["a\x1b[31mb"]).text).toBe("a␛[31mb");
    expect(shown(["a\r", "\nb"]).text).toBe("a\nb");
    expect(shown(["a\rb"]).text).toBe("a␍b");
  });
});

test("plain terminals show thinking and tool calls without signs, pipes the answer alone", () => {
  const written = (isForPerson: boolean) => {
    let text = "";
    const view = new PlainView((more) => {
      text += more;
    }, isForPerson);
    view.thinking("Hm.");
    view.text("**Yes**");
    view.note("→ look({})");
    view.end();
    return text;
  };
  expect([written(true), written(false)]).toEqual(["Hm.\n**Yes**\n→ look({})\n", "**Yes**\n"]);
});

test("a block is closed by what follows its blank line", () => {
  const lengths = ["a\n\nb", "a\n\n", "- a\n\n  b", "```\na\n\nb", "```\na\n```\n\nb", "a\n\nb\n\nc"].map(blockLength);
  expect(lengths).toEqual([3, undefined, undefined, undefined, 11, 3]);
});
