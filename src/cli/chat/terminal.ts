/** The chat at a terminal: lines, commands, and answers that Ctrl-C ends. */
import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";
import type { Terminal } from "../../lib/process/io.ts";
import { printable } from "../../lib/text/printable.ts";
import { type ChatHistory, historySize } from "./history.ts";

/** What is done with what was typed. */
export type Handler = {
  /** A message; `signal` ends its answer. */
  message(text: string, signal: AbortSignal): Promise<void>;
  /** A line that begins with a slash. @returns false to leave */
  command(line: string, signal: AbortSignal): Promise<boolean>;
  /** Beginnings of what can stand in a line. */
  complete(line: string): readonly string[];
};

const prompts = { first: "> ", more: "… " };

/** Bracketed paste: terminals say where a pasted text begins and ends. Source: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode */
const bracketedPaste = { on: "\x1b[?2004h", off: "\x1b[?2004l" };

const quotes = '"""';

/** Reads lines until Ctrl-D, Ctrl-C twice or a command that leaves. */
export async function converse(terminal: Terminal, history: ChatHistory, handler: Handler): Promise<void> {
  const chat = new TerminalChat(terminal, history, handler);
  await chat.left;
}

class TerminalChat {
  readonly left: Promise<void>;
  readonly #terminal: Terminal;
  readonly #history: ChatHistory;
  readonly #handler: Handler;
  readonly #lines: Interface;
  readonly #leave: () => void;
  readonly #gate: Gate;
  /** Lines of a message that goes on. */
  #begun: string[] = [];
  /** True between two lines of three quotation marks. */
  #isQuoted = false;
  #isPasting = false;
  /** Messages that were typed while an answer came. */
  readonly #waiting: string[] = [];
  #answering: AbortController | undefined;
  #isAskedToLeave = false;
  #hasLeft = false;

  constructor(terminal: Terminal, history: ChatHistory, handler: Handler) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.left = promise;
    this.#leave = resolve;
    this.#terminal = terminal;
    this.#history = history;
    this.#handler = handler;
    this.#gate = new Gate(terminal.output);
    this.#lines = createInterface({
      input: terminal.input,
      output: this.#gate,
      terminal: true,
      history: history.read(),
      historySize,
      removeHistoryDuplicates: true,
      completer: (line: string) => [handler.complete(line), line],
    });
    terminal.input.on("keypress", (_: unknown, key: { name?: string; sequence?: string } | undefined) =>
      this.#key(key),
    );
    this.#lines.on("line", (line) => this.#line(line));
    this.#lines.on("SIGINT", () => this.#interrupt());
    this.#lines.on("close", () => this.#close());
    terminal.output.write(bracketedPaste.on);
    this.#prompt();
  }

  #key(key: { name?: string; sequence?: string } | undefined): void {
    if (key?.name === "paste-start" || key?.sequence === "\x1b[200~") this.#isPasting = true;
    else if (key?.name === "paste-end" || key?.sequence === "\x1b[201~") this.#isPasting = false;
    else this.#isAskedToLeave = key?.sequence === "\x03" && this.#isAskedToLeave;
  }

  #line(line: string): void {
    const isContinued = line.endsWith("\\") && !this.#isPasting;
    const mark = line.trim() === quotes && !this.#isPasting;
    if (mark) this.#isQuoted = !this.#isQuoted;
    else this.#begun.push(isContinued ? line.slice(0, -1) : line);
    if (this.#isPasting || this.#isQuoted || isContinued) {
      this.#prompt();
      return;
    }
    const text = this.#begun.join("\n");
    this.#begun = [];
    if (text.trim() === "") this.#prompt();
    else if (this.#answering === undefined) void this.#run(text);
    else this.#waiting.push(text);
  }

  async #run(text: string): Promise<void> {
    this.#saveHistory();
    const answering = new AbortController();
    this.#answering = answering;
    this.#gate.isOpen = false;
    let goesOn = true;
    try {
      if (/^\/[a-z]*(\s|$)/.test(text)) goesOn = await this.#handler.command(text.trim(), answering.signal);
      else await this.#handler.message(text, answering.signal);
    } catch (error) {
      this.#terminal.output.write(`error: ${printable((error as Error).message)}\n`);
    }
    this.#gate.isOpen = true;
    this.#answering = undefined;
    if (!goesOn) this.#lines.close();
    if (this.#hasLeft || !goesOn) return;
    const next = this.#waiting.shift();
    if (next === undefined) return this.#prompt();
    this.#terminal.output.write(`${prompts.first}${next.replaceAll("\n", `\n${prompts.more}`)}\n`);
    void this.#run(next);
  }

  #prompt(): void {
    if (this.#answering !== undefined) return;
    this.#lines.setPrompt(this.#begun.length > 0 || this.#isQuoted ? prompts.more : prompts.first);
    this.#lines.prompt(true);
  }

  #interrupt(): void {
    if (this.#answering !== undefined) {
      this.#waiting.length = 0;
      this.#answering.abort();
      return;
    }
    const isEmpty = this.#lines.line === "" && this.#begun.length === 0 && !this.#isQuoted;
    if (isEmpty && this.#isAskedToLeave) {
      this.#lines.close();
      return;
    }
    this.#begun = [];
    this.#isQuoted = false;
    // Moves to the end and clears the line.
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
    this.#terminal.output.write(isEmpty ? "\nCtrl-C again, Ctrl-D or /quit leaves.\n" : "\n");
    this.#isAskedToLeave = isEmpty;
    this.#prompt();
  }

  #saveHistory(): void {
    this.#history.write((this.#lines as unknown as { history: string[] }).history);
  }

  #close(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#answering?.abort();
    this.#saveHistory();
    this.#terminal.output.write(`${bracketedPaste.off}\n`);
    this.#leave();
  }
}

/** The output of the line editor, which is silent while an answer is written. */
class Gate extends Writable {
  isOpen = true;
  readonly isTTY = true;
  readonly #output: Terminal["output"];

  constructor(output: Terminal["output"]) {
    super({ decodeStrings: false });
    this.#output = output;
    output.on("resize", () => this.emit("resize"));
  }

  get columns(): number {
    return this.#output.columns;
  }

  get rows(): number {
    return this.#output.rows;
  }

  override _write(text: string, _encoding: string, done: () => void): void {
    if (this.isOpen) this.#output.write(text);
    done();
  }
}
