/** The entry point, and the only file that uses `process`. */
import "./lib/json/proto-member.ts";
import { readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { isBehindForwardProxy } from "./lib/http/forward-proxy.ts";
import { isTerminal } from "./lib/linux/terminal.ts";
import type { Io, Output, Parent } from "./lib/process/io.ts";

/**
 * Bun runs at most 256 `fetch` calls at once, open streams included, and reads this variable only at its start.
 * Source: https://bun.com/docs/runtime/networking/fetch
 */
const manyRequests = { BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" };
/**
 * The heap grows to twice of what lives, where Bun lets it grow to three times on a machine with much memory: 25 MB less under load, for
 * as long a time in collections (30,000 calls). Below twice every collection becomes a full one.
 * Code is compiled to the highest tier ten times as late: once for some 40,000 calls, where it was for 4,000. That was a third of the first
 * 20,000 calls' CPU (80 µs a call), and most of a server that answers few. Loops over bytes get there as soon as they are worth it.
 * The engine reads both at its start, too.
 */
const engineSettings = { BUN_JSC_heapGrowthMaxIncrease: "1", BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: "640000" };

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  startWithVariables(args);
  // Imported late: static imports would run before execve, and again after it.
  const { run } = await import("./cli/program.ts");
  const { createLogger } = await import("./lib/process/log.ts");
  const [stdout, stderr] = [outputOf(Bun.stdout, 1), outputOf(Bun.stderr, 2)];
  const log = createLogger(stderr, { level: "error", pretty: stderr.isTerminal, now: () => Date.now() });
  // An error of one request must not end the others.
  process.on("unhandledRejection", (error) => log.error("unhandled rejection", { error }));
  process.on("uncaughtException", (error) => log.error("uncaught exception", { error }));
  const code = await run(args, processIo(stdout, stderr)).catch((error: unknown) => {
    log.error("unexpected error", { error });
    return 1;
  });
  await log.flush();
  // exit() drops output that a slow reader has not taken yet.
  for (const output of [stdout, stderr]) await output.flush();
  process.exit(code);
}

/**
 * Replaces this process (execve) with one that has these variables, where it serves and they are not set. It costs 6 ms. Behind a forward
 * proxy alone upstreams are called by `fetch`; our own HTTP client has no limit.
 */
function startWithVariables(args: readonly string[]): void {
  const [first = "serve"] = args;
  if (first !== "serve" && !first.startsWith("-")) return;
  const wanted = { ...(isCompiled && engineSettings), ...(isBehindForwardProxy(process.env) && manyRequests) };
  if (Object.keys(wanted).every((name) => process.env[name] !== undefined)) return;
  try {
    process.execve?.(executable, [...program, ...args], { ...wanted, ...process.env });
  } catch {
    // It serves as well without them.
  }
}

function outputOf(file: typeof Bun.stdout, descriptor: 1 | 2): Output {
  const writer = file.writer();
  const ignoringClosed = async (work: () => unknown) => {
    try {
      await work();
    } catch {
      // The reader is gone (`troupe … | head`); a server serves on.
    }
  };
  return {
    write: (text) => ignoringClosed(() => writer.write(text)),
    flush: () => ignoringClosed(() => writer.flush()),
    isTerminal: isTerminal(descriptor),
  };
}

/** Read at the start: once the file is replaced, Linux appends " (deleted)" to it. */
const executable = process.execPath;
const isCompiled = Bun.main.startsWith("/$bunfs/");
/** The command line of this program: the executable alone, or Bun and the source. */
const program = isCompiled ? [executable] : [executable, ...process.execArgv, Bun.main];

function processIo(stdout: Output, stderr: Output): Io {
  return {
    stdin: { isTerminal: isTerminal(0), text: () => Bun.stdin.text() },
    stdout,
    stderr,
    env: process.env,
    cwd: process.cwd(),
    readFile,
    isFolder,
    ...(stderr.isTerminal && isTerminal(0) && { confirm }),
    ...(stdout.isTerminal && { terminal }),
    onSignal(signal, run) {
      process.on(signal, run);
      return () => void process.off(signal, run);
    },
    processes: {
      id: process.pid,
      program,
      startAgain(env) {
        const { pid, exited } = Bun.spawn([...program, ...process.argv.slice(2)], {
          env: { ...process.env, ...env },
          stdio: ["ignore", "inherit", "inherit"],
        });
        return { id: pid, ended: exited };
      },
      startWorker(env, onMessage) {
        const child = Bun.spawn([...program, ...process.argv.slice(2)], {
          env: { ...process.env, ...env },
          stdio: ["ignore", "inherit", "inherit"],
          serialization: "json",
          ipc: onMessage,
        });
        return {
          id: child.pid,
          ended: child.exited,
          send: (message) => ignoringErrors(() => child.send(message)),
          kill: () => child.kill("SIGKILL"),
        };
      },
      ...(process.send !== undefined && { parent: parentProcess() }),
      signal: (id, name) => void process.kill(id, name),
    },
    machine: { cores: availableParallelism(), sharesPorts: process.platform === "linux" },
  };
}

/** Bun loads the streams when they are first asked for. */
const terminal = () => ({
  get input() {
    return process.stdin;
  },
  output: process.stdout,
});

/** Writes to stderr, as stdout may be a script's. No answer, as at the end of the input, is a no. */
async function confirm(question: string): Promise<boolean> {
  const { createInterface } = await import("node:readline");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve) => {
    lines.on("close", () => resolve(false));
    lines.question(`${question} [y/N] `, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      lines.close();
    });
  });
}

function parentProcess(): Parent {
  return {
    send: (message) => ignoringErrors(() => process.send!(message)),
    onMessage: (run) => void process.on("message", run),
    onDisconnect(run) {
      if (process.connected) process.on("disconnect", run);
      else run();
    },
  };
}

/** Sends, unless the other process has exited: its exit is reported elsewhere. */
function ignoringErrors(send: () => unknown): void {
  try {
    send();
  } catch {
    // It has exited.
  }
}

/** @returns false for a path that can't be read */
function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

const maxFile = 4 * 1024 * 1024;

function readFile(path: string): string | undefined {
  try {
    if (statSync(path).size > maxFile) throw new Error(`it is larger than ${maxFile} bytes`);
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return undefined;
    // "EACCES: permission denied, open '/path'": callers add the path themselves.
    throw new Error(message.split(",")[0]);
  }
}

void main();
