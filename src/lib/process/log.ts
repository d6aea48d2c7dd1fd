/** The log: JSON lines (or readable ones on a terminal), buffered, bounded, and with secrets redacted. */
import { truncate } from "../text/truncate.ts";

type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Resolves when everything written so far has left the process. */
  flush(): Promise<void>;
  /** Lines dropped because stderr was not read. */
  readonly dropped: number;
}

/** The destination of lines: `Bun.stderr.writer()`, or a test's own. */
export type LogSink = { write(text: string): unknown; flush(): unknown };

type LogOptions = {
  readonly level: LogLevel;
  readonly pretty: boolean;
  readonly now: () => number;
};

const ranks: Record<LogLevel, number> = { debug: 10, info: 20, warn: 30, error: 40 };
/** Beyond this much unread text, lines are dropped and counted: a stuck reader must not fill the memory. */
const maxPending = 1024 * 1024;
/** In UTF-16 code units. A longer line is cut, as a lost one would be of no use. */
const maxLineLength = 64 * 1024;
const flushAfterMs = 50;
/** Size that is written at once: text that is held for longer leaves the processor's cache, and costs more than the writing. */
const flushAtSize = 32 * 1024;

/** The same log, with these fields in every line. */
export function withFields(log: Logger, own: LogFields): Logger {
  return loggerOf(
    (level, message, fields) => log[level](message, { ...own, ...fields }),
    () => log.flush(),
    () => log.dropped,
  );
}

type WriteLine = (level: LogLevel, message: string, fields?: LogFields) => void;

const loggerOf = (write: WriteLine, flush: () => Promise<void>, dropped: () => number): Logger => ({
  debug: write.bind(undefined, "debug"),
  info: write.bind(undefined, "info"),
  warn: write.bind(undefined, "warn"),
  error: write.bind(undefined, "error"),
  flush,
  get dropped() {
    return dropped();
  },
});

/** Bytes that the system writes to a pipe in one piece, even if several processes write to it. Source: pipe(7), PIPE_BUF */
const wholePiece = 4096;

/** For a sink that several processes share: no line is torn apart by another's, unless it alone is longer than a piece. */
export function inWholeLines(sink: LogSink): LogSink {
  let pieces: string[] = [];
  return {
    write(text) {
      let piece = "";
      for (const line of text.split(/(?<=\n)/)) {
        if (piece !== "" && Buffer.byteLength(piece) + Buffer.byteLength(line) > wholePiece) {
          pieces.push(piece);
          piece = "";
        }
        piece += line;
      }
      pieces.push(piece);
    },
    async flush() {
      const taken = pieces;
      pieces = [];
      for (const piece of taken) {
        sink.write(piece);
        await sink.flush();
      }
    },
  };
}

export function createLogger(sink: LogSink, options: LogOptions): Logger {
  let pending: string[] = [];
  let pendingSize = 0;
  let dropped = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let flushing: Promise<void> | undefined;

  const write = (level: LogLevel, message: string, fields: LogFields = {}) => {
    if (ranks[level] < ranks[options.level]) return;
    const writeLine = options.pretty ? prettyLine : jsonLine;
    const now = options.now();
    let line = writeLine(now, level, message, fields);
    if (line.length > maxLineLength) line = boundedLine(writeLine, now, level, message, fields);
    if (pendingSize + line.length > maxPending) {
      dropped += 1;
      return;
    }
    pending.push(line);
    pendingSize += line.length;
    if (pendingSize >= flushAtSize && flushing === undefined) void flush();
    else timer ??= setTimeout(() => void flush(), flushAfterMs);
  };

  const drain = async () => {
    while (pending.length > 0) {
      const text = pending.join("");
      pending = [];
      sink.write(text);
      await sink.flush();
      pendingSize = pending.reduce((size, line) => size + line.length, 0);
    }
  };

  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    flushing ??= drain().finally(() => {
      flushing = undefined;
    });
    await flushing;
  };

  return loggerOf(write, flush, () => dropped);
}

type LineWriter = (now: number, level: LogLevel, message: string, fields: LogFields) => string;

/** Maximum lengths of one field where the whole line is too long, in the order in which they are tried. */
const fieldLengths = [16_384, 4096, 1024, 256, 64];

/** A line of at most `maxLineLength` in place of a longer one: its longest fields are cut, as little as will do. */
function boundedLine(write: LineWriter, now: number, level: LogLevel, message: string, fields: LogFields): string {
  for (const max of fieldLengths) {
    const line = write(now, level, truncate(message, max), cutFields(fields, max));
    if (line.length <= maxLineLength) return line;
  }
  return write(now, level, truncate(message), {});
}

/** Lists and objects are written as the text of their JSON, since half of one is none. */
function cutFields(fields: LogFields, max: number): LogFields {
  return Object.fromEntries(
    Object.entries(withoutSecrets(fields)).map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return [name, text !== undefined && text.length > max ? truncate(text, max) : value];
    }),
  );
}

function jsonLine(now: number, level: LogLevel, message: string, fields: LogFields): string {
  const head = `{"time":"${timeText(now)}","level":"${level}","message":${JSON.stringify(message)}`;
  const rest = JSON.stringify(isHarmless(fields) ? fields : withoutSecrets(fields)).slice("{".length);
  return rest === "}" ? `${head}}\n` : `${head},${rest}\n`;
}

function prettyLine(now: number, level: LogLevel, message: string, fields: LogFields): string {
  const time = timeText(now).slice(11, 23);
  const words = Object.entries(withoutSecrets(fields)).map(
    ([name, value]) => `${name}=${typeof value === "string" && !/\s/.test(value) ? value : JSON.stringify(value)}`,
  );
  return `${time} ${level.toUpperCase().padEnd(5)} ${message}${words.length > 0 ? `  ${words.join(" ")}` : ""}\n`;
}

/** Our keys (percent-encoded too), the usual upstream keys, and bearer headers, wherever they slipped into a text. */
const secretPattern =
  /(?:t|%(?:25)*74)(?:r|%(?:25)*72)(?:p|%(?:25)*70)(?:_|%(?:25)*5[fF])[0-9A-Za-z%]{6,}|\b(?:sk|xai|gsk|pplx|csk|AIza)[-_]?[0-9A-Za-z_-]{16,}|Bearer\s+[^\s"',]{8,}/;
const secretPatterns = new RegExp(secretPattern, "g");

/** A shorter text holds none of them. */
const minSecret = "trp_".length + 6;

/** True if the fields can be written as they are: that goes for nearly all lines, and saves a copy. */
function isHarmless(fields: LogFields): boolean {
  for (const name in fields) {
    const value = fields[name];
    if (typeof value !== "string") {
      if (value instanceof Error) return false;
    } else if (value.length >= minSecret && secretPattern.test(value)) return false;
  }
  return true;
}

function withoutSecrets(fields: LogFields): LogFields {
  const shown: [string, unknown][] = [];
  for (const name in fields) {
    const value = fields[name];
    if (value !== undefined) shown.push([name, typeof value === "string" ? hideSecrets(value) : describe(value)]);
  }
  return Object.fromEntries(shown); // unlike an assignment, it keeps a member of the name __proto__
}

/** The text with `***` for whatever looks like a key. */
export const hideSecrets = (text: string): string => text.replace(secretPatterns, "***");

let lastTime = Number.NaN;
let lastTimeText = "";

/** Many lines are written in one millisecond, and say so in the same words. */
function timeText(now: number): string {
  if (now !== lastTime) {
    lastTime = now;
    lastTimeText = new Date(now).toISOString();
  }
  return lastTimeText;
}

/** Deeper causes are left out: a chain may be long, or run in a circle. */
const maxCauses = 8;

/** Codes of the clients of servers, and of the system, about connections and disks. */
const outageCodes =
  /^(?:ERR_(?:POSTGRES|REDIS)_(?:CONNECTION|IDLE|LIFETIME)|E(?:CONN|HOST|NET|TIMEDOUT|PIPE|NOSPC|DQUOT|ROFS|IO$))/;

/** True if a server, a disk or a connection fails: then the message says all, and comes again as long as that lasts. */
function isOutage(error: Error & { readonly isOutage?: unknown; readonly code?: unknown }): boolean {
  return error.isOutage === true || (typeof error.code === "string" && outageCodes.test(error.code));
}

/** The sentence of an outage, be it the error or its cause; any other error with its stack and causes, as text; other values as they are. */
function describe(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  let cause: unknown = value;
  for (let depth = 0; cause instanceof Error && depth <= maxCauses; depth += 1, cause = cause.cause) {
    if (isOutage(cause)) return hideSecrets(cause.message === "" ? String(cause) : cause.message);
  }
  const parts: string[] = [];
  for (let error: unknown = value; error !== undefined && parts.length <= maxCauses; ) {
    parts.push(error instanceof Error ? errorText(error) : String(error));
    error = error instanceof Error ? error.cause : undefined;
  }
  return hideSecrets(parts.join("\ncaused by: "));
}

function errorText({ name, message, stack = "" }: Error): string {
  const head = (words: string) => (words === "" ? name : `${name}: ${words}`);
  const headline = head(message);
  const frames = stack.startsWith(headline) ? stack.slice(headline.length) : "";
  return head(quotingNames.has(name) ? withoutQuotes(message) : message) + frames;
}

/**
 * The runtime's own errors quote the values that they are about (`JSON Parse error: Unexpected identifier "Hello"`,
 * `'a' is "Hello"`), which may be what somebody said. The messages of all others are ours, and the system's.
 */
const quotingNames = new Set(["SyntaxError", "TypeError", "RangeError", "ReferenceError", "URIError", "EvalError"]);

/** From the first quotation mark to the last, as what is quoted may hold others. */
const withoutQuotes = (message: string): string => message.replace(/(["'`])[\s\S]*["'`]/, "$1…$1");
