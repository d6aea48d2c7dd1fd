/** One configured MCP server: started, watched, and started again when it dies; never by a call that waits for it. */
import type { McpServerConfig } from "../config/mcp.ts";
import type { JsonObject } from "../lib/json/json.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { McpSession, SessionOptions } from "./session.ts";
import { type CallResult, leftOutText, McpCallError, type McpTool, usableTools } from "./tool.ts";

export type OpenSession = (options: SessionOptions) => Promise<McpSession>;

export type ServerTools = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly open: OpenSession;
};

/** Pauses before a server that died is started again: doubled each time, until it has run for the longest. */
const minPauseMs = 500;
const maxPauseMs = 60_000;
/** A server that says that its tools changed is asked for them so often at most. */
const minRefreshMs = 1_000;
/** Lines of stderr that are logged in a minute; others are counted. */
const maxLines = 100;
const minuteMs = 60_000;

export type ServerState = "starting" | "ready" | "down" | "closed";

export class McpServer {
  readonly name: string;
  readonly config: McpServerConfig;
  readonly #tools: ServerTools;
  #session: McpSession | undefined;
  #listed: readonly McpTool[] | undefined;
  /** The first start, which calls wait for; undefined once it has ended, however. */
  #starting: Promise<void> | undefined;
  #isConnecting = false;
  readonly #underWay = new Map<McpSession, number>();
  /** A new session that is under way, which calls wait for. */
  #renewing: Promise<void> | undefined;
  readonly #closing = new AbortController();
  /** A program that spoke an old revision: it need not be started twice to find that out. */
  #isOld = false;
  #isClosed = false;
  #failures = 0;
  #readyAt = 0;
  #reason = "it was not started";
  #cancelRestart: (() => void) | undefined;
  #cancelRefresh: (() => void) | undefined;
  #refreshing: Promise<void> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  /** What was said last of tools that were left out. */
  #leftOut = "";
  #lines = { since: Number.NEGATIVE_INFINITY, logged: 0, dropped: 0 };
  /** Number of starts after the first one. */
  restarts = 0;
  /** Calls by how they ended: with a result, with one that is an error, without one. */
  readonly calls = { answered: 0, errors: 0, failed: 0 };

  constructor(name: string, config: McpServerConfig, tools: ServerTools) {
    this.name = name;
    this.config = config;
    this.#tools = tools;
  }

  get state(): ServerState {
    if (this.#isClosed) return "closed";
    if (this.#session !== undefined) return "ready";
    return (this.#starting ?? this.#renewing) === undefined ? "down" : "starting";
  }

  /** The reason why it is down. */
  get reason(): string {
    return this.#reason;
  }

  /** The tools that it listed last; undefined where it never did. */
  get listed(): readonly McpTool[] | undefined {
    return this.#listed;
  }

  /** The revision that is spoken; undefined while it is down. */
  get revision(): string | undefined {
    return this.#session?.revision;
  }

  /** Starts it, if nobody has. */
  start(): void {
    const isUnderWay = this.#session !== undefined || this.#isConnecting || this.#cancelRestart !== undefined;
    if (this.#isClosed || isUnderWay) return;
    this.#starting = this.#connect().finally(() => {
      this.#starting = undefined;
    });
  }

  /** Waits for a first start that is under way, and for nothing else. @returns undefined where it never listed its tools */
  async tools(): Promise<readonly McpTool[] | undefined> {
    if (this.#listed === undefined) await this.#starting;
    return this.#listed;
  }

  /** @throws McpCallError */
  async call(tool: string, args: JsonObject, signal: AbortSignal): Promise<CallResult> {
    try {
      const result = await this.#callOrRenew(tool, args, signal);
      this.calls[result.isError === true ? "errors" : "answered"] += 1;
      return result;
    } catch (error) {
      this.calls.failed += 1;
      throw error;
    }
  }

  /** Calls it; where the server no longer knows the session, and so did nothing, once more in a new one. */
  async #callOrRenew(tool: string, args: JsonObject, signal: AbortSignal): Promise<CallResult> {
    await this.#renewing;
    const session = this.#session;
    try {
      return await this.#callIn(session, tool, args, signal);
    } catch (error) {
      if (!(error instanceof McpCallError) || error.kind !== "expired") throw error;
      if (this.#session === session) this.#renew();
      await this.#renewing;
      if (signal.aborted) throw new McpCallError("cancelled", "the call was cancelled");
      return this.#callIn(this.#session, tool, args, signal);
    }
  }

  async #callIn(
    session: McpSession | undefined,
    tool: string,
    args: JsonObject,
    signal: AbortSignal,
  ): Promise<CallResult> {
    if (session === undefined) throw new McpCallError("down", `the server '${this.name}' is not available`);
    this.#underWay.set(session, (this.#underWay.get(session) ?? 0) + 1);
    try {
      return await session.call(tool, args, signal);
    } catch (error) {
      if (error instanceof McpCallError && error.kind === "lost") this.#lost(session, error.message);
      throw error;
    } finally {
      this.#underWay.set(session, this.#underWay.get(session)! - 1);
      this.#closeIdle();
    }
  }

  /** Begins a new session in place of one that the server no longer knows, at which other calls may still be answered. */
  #renew(): void {
    this.#session = undefined;
    this.#cancelRefresh?.();
    this.#cancelRefresh = undefined;
    this.restarts += 1;
    this.#closeIdle();
    this.#renewing = this.#connect().finally(() => {
      this.#renewing = undefined;
    });
  }

  /** Closes sessions that no call uses any more, and none will. */
  #closeIdle(): void {
    for (const [session, calls] of this.#underWay) {
      if (calls > 0 || session === this.#session) continue;
      this.#underWay.delete(session);
      void session.close().catch(() => {});
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closing.abort();
    this.#cancelRestart?.();
    this.#cancelRefresh?.();
    const sessions = new Set([...this.#underWay.keys(), ...(this.#session === undefined ? [] : [this.#session])]);
    this.#session = undefined;
    await Promise.all([...sessions].map((session) => session.close().catch(() => {})));
    await Promise.all([this.#starting, this.#renewing]);
  }

  async #connect(): Promise<void> {
    const { clock, log, version, open } = this.#tools;
    let opened: McpSession | undefined;
    this.#isConnecting = true;
    try {
      const session: McpSession = await open({
        name: this.name,
        version,
        config: this.config,
        isOld: this.#isOld,
        signal: this.#closing.signal,
        onStderr: (line) => this.#logLine(line),
        onToolsChanged: () => this.#changed(),
        onClosed: (reason) => this.#lost(opened, reason),
      });
      opened = session;
      const listed = await session.tools();
      if (this.#isClosed) return await session.close().catch(() => {});
      this.#take(listed);
      this.#session = session;
      this.#isOld = session.isOld && this.config.command !== undefined;
      this.#readyAt = clock.monotonic();
      this.#refreshedAt = this.#readyAt;
      log.info("mcp server ready", { server: this.name, revision: session.revision, tools: this.#listed!.length });
    } catch (error) {
      await opened?.close().catch(() => {});
      this.#failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.#isConnecting = false;
    }
  }

  #take(listed: readonly unknown[]): void {
    const { tools, leftOut } = usableTools(listed);
    this.#listed = tools;
    const text = leftOutText(leftOut);
    if (text !== "" && text !== this.#leftOut)
      this.#tools.log.warn("an mcp server's tools were left out", {
        server: this.name,
        dropped: leftOut.length,
        tools: text,
      });
    this.#leftOut = text;
  }

  /** @param session absent: it was lost before it was ready, which its start finds */
  #lost(session: McpSession | undefined, reason: string): void {
    if (session === undefined || this.#session !== session) return;
    this.#session = undefined;
    this.#cancelRefresh?.();
    this.#cancelRefresh = undefined;
    void session.close().catch(() => {});
    if (this.#tools.clock.monotonic() - this.#readyAt > maxPauseMs) this.#failures = 0;
    this.#failed(reason);
  }

  #failed(reason: string): void {
    if (this.#isClosed) return;
    const { clock, log } = this.#tools;
    this.#reason = reason;
    const pauseMs = Math.min(maxPauseMs, minPauseMs * 2 ** this.#failures);
    this.#failures += 1;
    log.error("mcp server down", { server: this.name, reason, restart_in_ms: pauseMs });
    this.#cancelRestart = clock.setTimer(pauseMs, () => {
      this.#cancelRestart = undefined;
      this.restarts += 1;
      // Nobody waits for it, so it is no first start.
      void this.#connect();
    });
  }

  /** Asks for the tools anew, a moment later where that was just done, so that a server that says it all the time is asked seldom. */
  #changed(): void {
    const { clock } = this.#tools;
    if (this.#cancelRefresh !== undefined || this.#isClosed) return;
    const waitMs = Math.max(0, this.#refreshedAt + minRefreshMs - clock.monotonic());
    this.#cancelRefresh = clock.setTimer(waitMs, () => {
      this.#refreshing = (this.#refreshing ?? Promise.resolve()).then(() => this.#refresh());
    });
  }

  async #refresh(): Promise<void> {
    const { clock, log } = this.#tools;
    const session = this.#session;
    this.#refreshedAt = clock.monotonic();
    this.#cancelRefresh = undefined;
    if (session === undefined) return;
    try {
      const listed = await session.tools();
      if (this.#session !== session) return;
      this.#take(listed);
      log.info("mcp tools changed", { server: this.name, tools: this.#listed!.length });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.warn("an mcp server's tools could not be listed anew; the last list stays", { server: this.name, reason });
    }
  }

  #logLine(line: string): void {
    const { clock, log } = this.#tools;
    const now = clock.monotonic();
    if (now - this.#lines.since > minuteMs) {
      const { dropped } = this.#lines;
      if (dropped > 0) log.warn("an mcp server writes too much to stderr", { server: this.name, dropped });
      this.#lines = { since: now, logged: 0, dropped: 0 };
    }
    if (this.#lines.logged === maxLines) this.#lines.dropped += 1;
    else {
      this.#lines.logged += 1;
      log.info("mcp stderr", { server: this.name, line });
    }
  }
}
