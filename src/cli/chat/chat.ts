/** `troupe chat`: talks with a persona or a model, at a terminal, once, or through pipes. */
import { resolve } from "node:path";
import { writePrivately } from "../../lib/files/write-privately.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import type { Io } from "../../lib/process/io.ts";
import { printable } from "../../lib/text/printable.ts";
import type { ChunkBody, CompletionBody } from "../../protocols/chat/schema.ts";
import { collectedFields } from "../arguments.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import type { KeptTurn } from "../personas/keep-test.ts";
import { readInput, readText } from "../print/request-fields.ts";
import { ChatClient, type ChatModel } from "./client.ts";
import { ChatConversation } from "./conversation.ts";
import { ChatHistory } from "./history.ts";
import { type ServerOptions, withServer } from "./server.ts";
import { converse } from "./terminal.ts";
import { type AnswerView, MarkdownView, PlainView, type Screen } from "./view.ts";

type ChatOptions = ServerOptions & {
  readonly system?: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly set?: JsonObject;
  /** False for `--no-stream`. */
  readonly stream?: boolean;
  readonly json?: boolean;
};

/** The code of a process that Ctrl-C ended. */
const interrupted: ExitCode = 130;

export function chat(
  context: Context,
  model: string,
  words: readonly string[],
  options: ChatOptions,
): Promise<ExitCode> {
  const { io } = context;
  return withConfig(context, (config) =>
    withServer(context, config, options, async (server) => {
      const client = new ChatClient(server);
      const { variables, set, system } = options;
      const fields = { ...set, ...(variables && { variables }) };
      const conversation = new ChatConversation(system === undefined ? undefined : await readInput(io, system), fields);
      const found = await client.find(model);
      const piped = io.stdin.isTerminal ? "" : (await io.stdin.text()).trimEnd();
      const question = [words.join(" "), piped].filter((part) => part !== "").join("\n\n");
      const keep: Keep = async (turn) => (await import("../personas/keep-test.ts")).keepTurn(context, config, turn);
      const chatting = new Chat(io, client, conversation, found, options, keep);
      if (question !== "" || options.json) return chatting.once(question);
      if (io.terminal === undefined || !io.stdin.isTerminal)
        throw new UsageError("There is nothing to say: give a question, or text on the standard input.");
      return chatting.converse();
    }),
  );
}

const help = `/model [id]     talk with another persona or model; without an id, list them
/system [text]  the system text: show it, or set it; '/system off' removes it
/set field=…    a field of the requests, such as temperature=0.2; '/set' shows them
/clear          forget what was said
/retry          ask the last question again
/save <file>    keep the conversation
/load <file>    go on with one that was kept
/test [what]    keep the last answer as a test of the persona: a part of it, or what it has to do
/usage          tokens and cost so far
/quit           leave; so does Ctrl-D
A line that ends in \\ goes on in the next one, and """ begins and ends a text of many lines. Ctrl-C ends an answer.
`;

/** Keeps a turn as a test. @returns a line for whoever asked */
type Keep = (turn: KeptTurn) => Promise<string>;

class Chat {
  readonly #io: Io;
  readonly #client: ChatClient;
  readonly #conversation: ChatConversation;
  readonly #options: ChatOptions;
  readonly #keep: Keep;
  #model: ChatModel;
  /** Ids for the tabulator key. */
  #models: readonly string[] = [];

  constructor(
    io: Io,
    client: ChatClient,
    conversation: ChatConversation,
    model: ChatModel,
    options: ChatOptions,
    keep: Keep,
  ) {
    this.#io = io;
    this.#client = client;
    this.#conversation = conversation;
    this.#model = model;
    this.#options = options;
    this.#keep = keep;
  }

  /** Asks one question. */
  async once(question: string): Promise<ExitCode> {
    if (question === "")
      throw new UsageError("There is nothing to say: give a question, or text on the standard input.");
    const { stdout, onSignal } = this.#io;
    const asking = new AbortController();
    const stopListening = onSignal("SIGINT", () => asking.abort());
    this.#conversation.ask(question);
    try {
      if (this.#options.json) {
        const answer = await this.#client.answer(this.#model, this.#body(), asking.signal);
        // JSON leaves these as they are, and terminals act on them.
        const text = JSON.stringify(answer, null, 2).replace(
          /[\x7f-\x9f]/g,
          (character) => `\\u00${character.charCodeAt(0).toString(16)}`,
        );
        stdout.write(`${text}\n`);
      } else await this.#answer(this.#view(), asking.signal);
    } catch (error) {
      if (!asking.signal.aborted) throw error;
    } finally {
      stopListening();
    }
    return asking.signal.aborted ? interrupted : 0;
  }

  /** Talks until the person leaves. */
  async converse(): Promise<ExitCode> {
    const terminal = this.#io.terminal!();
    const { output } = terminal;
    const { id, greeting } = this.#model;
    const show = (text: string) => output.write(text);
    show(`${printable(id)}. /help shows what else there is.\n\n`);
    if (greeting !== undefined) this.#greet(greeting);
    this.#models = await this.#client.models();
    await converse(terminal, new ChatHistory(this.#io), {
      message: async (text, signal) => {
        this.#conversation.ask(text);
        await this.#answerOrDrop(signal);
      },
      command: (line, signal) => this.#command(line, signal, show),
      complete: (line) => this.#completions(line),
    });
    return 0;
  }

  #greet(greeting: string): void {
    const view = this.#view();
    view.text(greeting);
    view.end();
    this.#write("\n");
  }

  async #answerOrDrop(signal: AbortSignal): Promise<void> {
    try {
      await this.#answer(this.#view(), signal);
      this.#write("\n");
    } catch (error) {
      this.#conversation.dropQuestion();
      throw error;
    }
  }

  /** @throws CommandError */
  async #answer(view: AnswerView, signal: AbortSignal): Promise<void> {
    let answer: CompletionBody;
    try {
      if (this.#options.stream === false) {
        answer = await this.#client.answer(this.#model, this.#body(), signal);
        showMessage(view, answer);
      } else {
        const reader = {
          chunk: (chunk: ChunkBody) => showChunk(view, chunk),
          comment: (text: string) => view.note(text),
        };
        answer = await this.#client.stream(this.#model, this.#body(), signal, reader);
      }
      showCalls(view, answer);
    } finally {
      view.end();
    }
    this.#conversation.take(answer);
    const [choice] = answer.choices;
    const reason = choice?.finish_reason;
    if (signal.aborted) this.#warn("ended here");
    else if (reason === "length") this.#warn("cut off: the limit of tokens was reached");
    else if (reason === "content_filter") this.#warn("cut off by the provider's content filter");
  }

  #body(): JsonObject {
    return this.#conversation.body(this.#model.id);
  }

  #warn(text: string): void {
    this.#io.stderr.write(`(${text})\n`);
    this.#io.stderr.flush();
  }

  #view(): AnswerView {
    const { stdout, env } = this.#io;
    const isRich = stdout.isTerminal && !env["NO_COLOR"] && env["TERM"] !== "dumb";
    return isRich ? new MarkdownView(this.#screen()) : new PlainView((text) => this.#write(text), stdout.isTerminal);
  }

  #screen(): Screen {
    const output = this.#io.terminal?.().output;
    const write = (text: string) => this.#write(text);
    return {
      write,
      get columns() {
        return output?.columns || 80;
      },
      get rows() {
        return output?.rows || 24;
      },
    };
  }

  #write(text: string): void {
    const { stdout, terminal } = this.#io;
    if (terminal !== undefined) terminal().output.write(text);
    else {
      stdout.write(text);
      stdout.flush();
    }
  }

  #completions(line: string): readonly string[] {
    const model = /^\/model (.*)$/s.exec(line);
    if (model !== null) return this.#models.filter((id) => id.startsWith(model[1]!)).map((id) => `/model ${id}`);
    return line.startsWith("/") ? Object.keys(commands).filter((name) => name.startsWith(line)) : [];
  }

  async #command(line: string, signal: AbortSignal, show: (text: string) => void): Promise<boolean> {
    const [name = "", ...rest] = line.split(/\s/);
    const argument = line.slice(name.length).trim();
    const conversation = this.#conversation;
    switch (ownCommand(name)) {
      case "help":
        show(help);
        break;
      case "quit":
        return false;
      case "clear":
        conversation.clear();
        show("Forgotten.\n");
        break;
      case "usage":
        show(`${conversation.usage()}\n`);
        break;
      case "retry":
        if (!conversation.retract()) throw new UsageError("Nothing was asked yet.");
        await this.#answerOrDrop(signal);
        break;
      case "model":
        if (argument === "") {
          this.#models = await this.#client.models();
          show(`${printable(this.#models.join("\n"))}\n`);
        } else {
          this.#model = await this.#client.find(argument);
          show(`Now ${printable(this.#model.id)}.\n`);
          if (this.#model.greeting !== undefined && conversation.turns.length === 0) this.#greet(this.#model.greeting);
        }
        break;
      case "system":
        if (argument !== "") conversation.system = argument === "off" ? undefined : argument;
        show(conversation.system === undefined ? "No system text of yours.\n" : `${printable(conversation.system)}\n`);
        break;
      case "set":
        for (const word of rest.filter((one) => one !== ""))
          conversation.fields = collectedFields(word, conversation.fields);
        show(`${printable(JSON.stringify(conversation.fields))}\n`);
        break;
      case "test":
        show(`${printable(await this.#keepAsTest(argument))}\n`);
        break;
      case "save":
        this.#save(argument);
        show(`Kept in ${printable(argument)}.\n`);
        break;
      case "load": {
        if (argument === "") throw new UsageError("Name the file: /load <file>");
        const model = conversation.load(readText(this.#io, argument), argument);
        if (model !== undefined && model !== this.#model.id) this.#model = await this.#client.find(model);
        show(`${conversation.turns.length} messages, with ${printable(this.#model.id)}.\n`);
        break;
      }
      default:
        throw new UsageError(`There is no ${name}; /help shows what there is.`);
    }
    return true;
  }

  /** @param wanted of the answer; "": the answer itself @throws CommandError */
  #keepAsTest(wanted: string): Promise<string> {
    const { id, base } = this.#model;
    if (base !== "/v1") throw new UsageError(`${id} is no persona: only a persona has tests.`);
    const { messages, variables, ...fields } = this.#body();
    return this.#keep({
      persona: id,
      said: messages as KeptTurn["said"],
      variables: variables as KeptTurn["variables"],
      fields,
      ...(wanted !== "" && { wanted }),
    });
  }

  /** @throws UsageError, CommandError */
  #save(file: string): void {
    if (file === "") throw new UsageError("Name the file: /save <file>");
    try {
      writePrivately(resolve(this.#io.cwd, file), this.#conversation.save(this.#model.id));
    } catch (error) {
      throw new CommandError(`${file} can't be written: ${(error as Error).message}`);
    }
  }
}

const commands = {
  "/help": "help",
  "/model": "model",
  "/system": "system",
  "/set": "set",
  "/clear": "clear",
  "/retry": "retry",
  "/test": "test",
  "/save": "save",
  "/load": "load",
  "/usage": "usage",
  "/quit": "quit",
  "/exit": "quit",
} as const;

const ownCommand = (name: string) =>
  Object.hasOwn(commands, name) ? commands[name as keyof typeof commands] : undefined;

function showChunk(view: AnswerView, { choices }: ChunkBody): void {
  for (const { delta, index } of choices) {
    if (index !== 0) continue;
    if (typeof delta.reasoning_content === "string") view.thinking(delta.reasoning_content);
    if (typeof delta.content === "string") view.text(delta.content);
    if (typeof delta["refusal"] === "string") view.text(delta["refusal"]);
  }
}

function showMessage(view: AnswerView, { choices }: CompletionBody): void {
  const message = choices[0]?.message;
  if (typeof message?.reasoning_content === "string") view.thinking(message.reasoning_content);
  for (const text of [message?.content, message?.["refusal"]]) if (typeof text === "string") view.text(text);
}

/** Nothing calls the tools here: they are shown. */
function showCalls(view: AnswerView, { choices }: CompletionBody): void {
  for (const call of choices[0]?.message.tool_calls ?? []) {
    if (call.type === "function") view.note(`→ ${call.function.name}(${call.function.arguments})`);
    else view.note(`→ ${JSON.stringify(call)}`);
  }
}
