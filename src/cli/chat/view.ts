/**
 * Shows an answer while it comes. Blocks of Markdown that are complete are written once, by Bun's own renderer; the one that is still
 * growing is drawn again with each piece, as much of it as fits the screen.
 */
import { printable } from "../../lib/text/printable.ts";

/** A terminal, or what stands for one. */
export type Screen = {
  write(text: string): void;
  readonly columns: number;
  readonly rows: number;
};

export interface AnswerView {
  thinking(text: string): void;
  text(text: string): void;
  /** A line beside the answer, such as a tool call. */
  note(text: string): void;
  /** Ends what is open. */
  end(): void;
}

const dim = (text: string) => `\x1b[2m${text}\x1b[22m`;

/** Carriage returns of line ends go, also where a piece ends between the two; every other control character is made visible. */
class Cleaner {
  #held = "";

  clean(text: string): string {
    const whole = this.#held + text;
    this.#held = whole.endsWith("\r") ? "\r" : "";
    return printable((this.#held === "" ? whole : whole.slice(0, -1)).replaceAll("\r\n", "\n"));
  }
}

/** Text as it comes: for pipes and files the answer alone, for plain terminals with what stands beside it. */
export class PlainView implements AnswerView {
  readonly #write: (text: string) => void;
  readonly #isForPerson: boolean;
  readonly #cleaner = new Cleaner();
  #isOpen = false;
  #isThinking = false;

  constructor(write: (text: string) => void, isForPerson = false) {
    this.#write = write;
    this.#isForPerson = isForPerson;
  }

  thinking(text: string): void {
    if (!this.#isForPerson) return;
    this.#isThinking = true;
    this.#add(text);
  }

  text(text: string): void {
    if (this.#isThinking) this.end();
    this.#isThinking = false;
    this.#add(text);
  }

  note(text: string): void {
    if (!this.#isForPerson) return;
    this.end();
    this.#write(`${printable(text)}\n`);
  }

  end(): void {
    if (this.#isOpen) this.#write("\n");
    this.#isOpen = false;
  }

  #add(text: string): void {
    const clean = this.#cleaner.clean(text);
    if (clean === "") return;
    this.#write(clean);
    this.#isOpen = !clean.endsWith("\n");
  }
}

const fence = /^ {0,3}(?:`{3,}|~{3,})/;

/** @returns the length of a text's first block with the blank lines behind it; undefined while what follows may belong to it */
export function blockLength(text: string): number | undefined {
  let at = 0;
  let opening: string | undefined;
  let isBehindBlank = false;
  for (const line of text.split("\n")) {
    // What is indented behind a blank line may belong to a list.
    if (opening === undefined && isBehindBlank && /^\S/.test(line)) return at;
    const mark = fence.exec(line)?.[0].trim();
    if (opening === undefined) opening = mark;
    else if (mark?.startsWith(opening) && line.trim() === mark) opening = undefined;
    isBehindBlank = line.trim() === "";
    at += line.length + 1;
  }
  return undefined;
}

/** Ends of lines stay where they are: models mean them. */
function withHardBreaks(text: string): string {
  let isInFence = false;
  return text
    .split("\n")
    .map((line) => {
      if (fence.test(line)) isInFence = !isInFence;
      return isInFence || line.trim() === "" || fence.test(line) ? line : `${line.trimEnd()}  `;
    })
    .join("\n");
}

export class MarkdownView implements AnswerView {
  readonly #screen: Screen;
  readonly #cleaner = new Cleaner();
  #state: "nothing" | "thinking" | "block" | "behind" = "nothing";
  /** The text of the block that is still growing. */
  #open = "";
  /** Its length when it was drawn last. */
  #drawn = 0;
  /** The widths of its lines on the screen. */
  #widths: number[] = [];

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  thinking(text: string): void {
    const clean = this.#cleaner.clean(text);
    if (clean === "") return;
    if (this.#state !== "thinking") this.#separate();
    this.#state = "thinking";
    this.#screen.write(dim(clean));
  }

  text(text: string): void {
    const clean = this.#cleaner.clean(text);
    this.#add(this.#open === "" ? clean.replace(/^(?:[ \t]*\n)+/, "") : clean);
    for (;;) {
      const length = blockLength(this.#open);
      if (length === undefined) break;
      const rest = this.#open.slice(length);
      this.#open = this.#open.slice(0, length);
      this.#finish();
      this.#add(rest);
    }
    // A long block is drawn less often, as the whole of it is rendered each time.
    if (this.#open !== "" && this.#open.length - this.#drawn >= this.#open.length / 64) this.#draw();
  }

  #add(text: string): void {
    if (text === "") return;
    if (this.#open === "") this.#separate();
    this.#state = "block";
    this.#open += text;
  }

  note(text: string): void {
    this.#finish();
    this.#separate();
    this.#screen.write(`${dim(printable(text))}\n`);
    this.#state = "behind";
  }

  end(): void {
    this.#finish();
    if (this.#state === "thinking") this.#screen.write("\n");
    this.#state = "behind";
  }

  /** Begins something new below what stands there. */
  #separate(): void {
    if (this.#state === "thinking") this.#screen.write("\n\n");
    if (this.#state === "behind") this.#screen.write("\n");
  }

  #lines(): string[] {
    const { columns } = this.#screen;
    return Bun.markdown.ansi(withHardBreaks(this.#open), { columns }).replace(/\n+$/, "").split("\n");
  }

  #draw(): void {
    const { columns, rows } = this.#screen;
    const lines = this.#lines();
    let room = rows - 1;
    let first = lines.length;
    while (first > 0 && room > 0) {
      room -= rowsOf(Bun.stringWidth(lines[first - 1]!), columns);
      if (room >= 0) first -= 1;
    }
    const shown = lines.slice(Math.min(first, lines.length - 1));
    this.#screen.write(`${this.#erasing()}${shown.join("\n")}\x1b[0m`);
    this.#widths = shown.map((line) => Bun.stringWidth(line));
    this.#drawn = this.#open.length;
  }

  /** Writes the whole block in place of what is drawn of it. */
  #finish(): void {
    if (this.#open === "") return;
    this.#screen.write(`${this.#erasing()}${this.#lines().join("\n")}\x1b[0m\n`);
    this.#open = "";
    this.#drawn = 0;
    this.#widths = [];
    this.#state = "behind";
  }

  /** Goes back to where the drawn lines begin, and clears them. Terminals wrap them anew when they get narrower. */
  #erasing(): string {
    if (this.#widths.length === 0) return "";
    const { columns } = this.#screen;
    const up = this.#widths.reduce((sum, width) => sum + rowsOf(width, columns), 0) - 1;
    return `\r${up > 0 ? `\x1b[${up}A` : ""}\x1b[J`;
  }
}

const rowsOf = (width: number, columns: number): number => Math.max(1, Math.ceil(width / columns));
