/** Calls the tools of one request by MCP, within its bounds, and records each call in the ledger, the log and the answer's metadata. */
import type { Caller } from "../../../auth/keys.ts";
import type { McpBounds } from "../../../config/mcp.ts";
import type { JsonObject } from "../../../lib/json/json.ts";
import { truncate } from "../../../lib/text/truncate.ts";
import { findTools, findToolsDefinition, foundText } from "../../../mcp/find-tools.ts";
import type { CallableTool } from "../../../mcp/grants.ts";
import { boundedText, type CallResult, McpCallError, resultText } from "../../../mcp/tool.ts";
import type { FunctionTool, Message, ToolCall } from "../../../protocols/chat/schema.ts";
import { argumentsIn } from "../../../protocols/chat/tools.ts";
import type { RequestContext } from "../../context.ts";
import type { Services } from "../../services.ts";
import { nextAttempt } from "../../settle/settle.ts";

/** A call as the answer's metadata has it. */
type CallRecord = {
  readonly server: string;
  readonly tool: string;
  /** As the model wrote them, cut off: without the fixed ones. */
  readonly arguments: string;
  readonly ms: number;
  readonly is_error: boolean;
};

type ToolRunOptions = {
  readonly services: Services;
  readonly context: RequestContext;
  readonly caller: Caller;
  /** The model as the caller named it. */
  readonly model: string;
  readonly tools: readonly CallableTool[];
  readonly bounds: McpBounds;
  /** So many tools the model may be given here beside those of the caller. */
  readonly room: number;
  /** Ends calls under way. */
  readonly signal: AbortSignal;
  /** Awaited before the first call: what a retry must not do again begins. */
  readonly onFirstCall: (() => Promise<void>) | undefined;
  /** Called when a call begins and when it ends, with a line for whoever watches. */
  readonly onProgress: (line: string) => void;
};

const maxArguments = 500;
/** Of all records together, as metadata is read as a short text. */
const maxMetadata = 16 * 1024;

export class ToolRun {
  readonly #options: ToolRunOptions;
  readonly #byName: ReadonlyMap<string, CallableTool>;
  /** The tool that searches the others; absent: the model is given all of them. */
  readonly #search: FunctionTool | undefined;
  /** Those that were found. */
  readonly #found = new Set<CallableTool>();
  readonly #records: CallRecord[] = [];
  readonly #deadline: number;
  #begun: Promise<void> | undefined;
  #turns = 0;
  #calls = 0;
  #bytes = 0;
  /** In micro-dollars. */
  #cost = 0;

  constructor(options: ToolRunOptions) {
    const { tools, bounds, room, services } = options;
    this.#options = options;
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]));
    this.#deadline = services.clock.monotonic() + bounds.seconds * 1000;
    if (tools.length > Math.min(bounds.findAbove, room))
      this.#search = findToolsDefinition(searchName(this.#byName), tools.length);
  }

  /** The tools that the model is given with its next turn; of those that were found the latest, where there is no room for all. */
  get offered(): readonly FunctionTool[] {
    const { tools, room } = this.#options;
    if (this.#search === undefined) return tools.map(({ definition }) => definition);
    if (room < 1) return [];
    const always = tools.filter(({ isLocal }) => isLocal).slice(0, room - 1);
    const others = [...this.#found].filter((tool) => !always.includes(tool));
    const found = others.slice(Math.max(0, others.length - (room - 1 - always.length)));
    return [this.#search, ...[...always, ...found].map(({ definition }) => definition)];
  }

  /** True for a tool that is called here. */
  owns(name: string): boolean {
    return this.#byName.has(name) || name === this.#search?.function.name;
  }

  /** True once the model has to answer without more calls. */
  get isExhausted(): boolean {
    return this.#turns >= this.#options.bounds.turns || this.#mayCallNoMore;
  }

  get #mayCallNoMore(): boolean {
    const { calls, totalBytes, dollars } = this.#options.bounds;
    return (
      this.#calls >= calls ||
      this.#bytes >= totalBytes ||
      (dollars !== undefined && this.#cost >= dollars * 1e6) ||
      this.#options.services.clock.monotonic() >= this.#deadline
    );
  }

  /** @param cost of a turn of the model, in micro-dollars; undefined where unknown */
  spent(cost: number | undefined): void {
    this.#cost += cost ?? 0;
  }

  /** The calls so far as the answer's metadata has them; undefined where there were none. */
  get metadata(): string | undefined {
    if (this.#records.length === 0) return undefined;
    const shown: CallRecord[] = [];
    let length = 0;
    for (const record of this.#records) {
      length += JSON.stringify(record).length;
      if (length > maxMetadata) break;
      shown.push(record);
    }
    const omitted = this.#records.length - shown.length;
    return JSON.stringify(omitted === 0 ? shown : [...shown, { omitted }]);
  }

  /** Calls the tools of one turn, as many at once as may be. @returns their results in the calls' order */
  async run(calls: readonly ToolCall[]): Promise<Message[]> {
    this.#turns += 1;
    const { services, bounds, signal } = this.#options;
    const stop = new AbortController();
    const abort = () => stop.abort();
    if (signal.aborted) stop.abort();
    signal.addEventListener("abort", abort);
    const left = Math.max(0, this.#deadline - services.clock.monotonic());
    const cancelTimer = services.clock.setTimer(left, abort);
    const results: string[] = [];
    let next = 0;
    const work = async () => {
      while (next < calls.length) {
        const at = next;
        next += 1;
        results[at] = await this.#result(calls[at]!, stop.signal);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(bounds.parallel, calls.length) }, work));
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", abort);
    }
    return calls.map(({ id }, at) => ({ role: "tool", tool_call_id: id, content: results[at]! }));
  }

  /** The text that the model gets. A call that can't be made is a result that says why. */
  async #result({ function: called }: ToolCall, signal: AbortSignal): Promise<string> {
    const args = argumentsIn(called.arguments);
    if (args === undefined) return "Error: the arguments are no JSON object.";
    if (called.name === this.#search?.function.name) return this.#searched(args);
    const tool = this.#byName.get(called.name)!;
    if (this.#mayCallNoMore) return "Error: no more tools may be called. Answer with what you know.";
    this.#calls += 1;
    const text = await this.#call(tool, args, called.arguments, signal);
    const { resultBytes, totalBytes } = this.#options.bounds;
    const left = totalBytes - this.#bytes;
    if (left <= 0) return "Error: there is no room for more results. Answer with what you know.";
    const bounded = boundedText(text, Math.min(resultBytes, left));
    this.#bytes += Buffer.byteLength(bounded);
    return bounded;
  }

  #searched({ query }: JsonObject): string {
    const found = findTools(this.#options.tools, typeof query === "string" ? query : "");
    // The best of them are the last to make room for others.
    for (const tool of found.toReversed()) {
      this.#found.delete(tool);
      this.#found.add(tool);
    }
    return foundText(found);
  }

  async #call(tool: CallableTool, args: JsonObject, written: string, signal: AbortSignal): Promise<string> {
    const { services, context, onProgress, onFirstCall } = this.#options;
    if (tool.isLocal !== true) {
      this.#begun ??= onFirstCall?.() ?? Promise.resolve();
      await this.#begun;
    }
    const startedAt = services.clock.monotonic();
    const entry = tool.isLocal === true ? undefined : await services.usage.begin(this.#attempt(tool));
    onProgress(`calling ${tool.name}`);
    let result: CallResult | undefined;
    let failure: McpCallError | undefined;
    try {
      result = await tool.call(args, signal);
    } catch (error) {
      failure = error instanceof McpCallError ? error : new McpCallError("refused", "the call failed");
      if (failure.kind === "cancelled" && !this.#options.signal.aborted)
        failure = new McpCallError("timeout", `no result within the ${this.#options.bounds.seconds} s for tools`);
    }
    const ms = Math.round(services.clock.monotonic() - startedAt);
    const isError = failure !== undefined || result?.isError === true;
    const text = failure === undefined ? resultText(result!) : `Error: ${failure.message}`;
    if (failure?.kind === "cancelled") entry?.settle({ ended: "abandoned" });
    else if (failure === undefined) entry?.settle({ ended: "finished", status: 200 });
    else entry?.settle({ ended: "broken", status: failure.kind === "timeout" ? 504 : 502, errorCode: failure.kind });
    this.#records.push({
      server: tool.server,
      tool: truncate(tool.tool.name),
      arguments: written.slice(0, maxArguments),
      ms,
      is_error: isError,
    });
    services.log.info("mcp call", {
      request_id: context.id,
      server: tool.server,
      tool: truncate(tool.tool.name),
      ms,
      bytes: Buffer.byteLength(text),
      is_error: isError,
      ...(failure !== undefined && { failure: failure.kind }),
    });
    onProgress(`${tool.name} ${isError ? "failed" : "answered"} after ${ms} ms`);
    return result?.isError === true ? `Error: ${text}` : text;
  }

  /** A call's line in the ledger: provider `mcp:<server>`, the tool's name as the model, and no cost. */
  #attempt({ server, tool }: CallableTool) {
    const { context, caller, model } = this.#options;
    const target = {
      provider: `mcp:${server}`,
      dialect: "mcp",
      baseUrl: "",
      model: truncate(tool.name),
      isLocal: true,
      isListed: false,
    };
    return nextAttempt(context, caller, model, target, { inputBytes: 0, billed: "nothing" });
  }
}

function searchName(taken: ReadonlyMap<string, unknown>): string {
  let name = "find_tools";
  while (taken.has(name)) name += "_";
  return name;
}
