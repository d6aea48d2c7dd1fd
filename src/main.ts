/** The executable's door, and the only file that touches the process. */
import { readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { isBehindForwardProxy } from "./lib/http/forward-proxy.ts";
import type { Io, Output, Parent } from "./lib/io.ts";

/**
 * Bun lets 256 of its own outgoing requests run at once, open streams included, and reads another number only at its start.
 * Source: https://bun.com/docs/runtime/networking/fetch
 */
const maxRequests = { variable: "BUN_CONFIG_MAX_HTTP_REQUESTS", value: "65535" };

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  raiseRequestLimit(args);
  // Only now: what is imported above runs before the limit is raised, and would run again after it.
  const { run } = await import("./cli/program.ts");
  const { createLogger } = await import("./lib/log.ts");
  const [stdout, stderr] = [outputOf(Bun.stdout, process.stdout.isTTY), outputOf(Bun.stderr, process.stderr.isTTY)];
  const log = createLogger(stderr, { level: "error", pretty: stderr.isTerminal, now: () => Date.now() });
  // A fault in one request must not end the others.
  process.on("unhandledRejection", (error) => log.error("unhandled rejection", { error }));
  process.on("uncaughtException", (error) => log.error("uncaught exception", { error }));
  const code = await run(args, processIo(stdout, stderr)).catch((error: unknown) => {
    log.error("unexpected error", { error });
    return 1;
  });
  await log.flush();
  // Before the exit, which drops what is still on its way to a slow reader.
  for (const output of [stdout, stderr]) await output.flush();
  process.exit(code);
}

/**
 * Starts this process anew, under the same id, where it is about to serve and the number has not been raised. Only behind
 * a forward proxy, where upstreams are called by `fetch`: it takes 6 ms, and our own connections have no such number.
 */
function raiseRequestLimit(args: readonly string[]): void {
  const [first = "serve"] = args;
  const mayServe = first === "serve" || first.startsWith("-");
  if (!mayServe || !isBehindForwardProxy(process.env) || process.env[maxRequests.variable] !== undefined) return;
  process.execve?.(executable, [...program, ...args], {
    ...process.env,
    [maxRequests.variable]: maxRequests.value,
  });
}

function outputOf(file: typeof Bun.stdout, isTerminal = false): Output {
  const writer = file.writer();
  const whileRead = async (work: () => unknown) => {
    try {
      await work();
    } catch {
      // Nobody reads any more (`troupe … | head`): there is nobody to tell, and a server serves on.
    }
  };
  return {
    write: (text) => whileRead(() => writer.write(text)),
    flush: () => whileRead(() => writer.flush()),
    isTerminal,
  };
}

/** Asked at the start: once the file is replaced, the system calls the old one deleted. */
const executable = process.execPath;
/** What runs this program: the executable alone, or Bun and the source. */
const program = Bun.main.startsWith("/$bunfs/") ? [executable] : [executable, ...process.execArgv, Bun.main];

function processIo(stdout: Output, stderr: Output): Io {
  return {
    stdout,
    stderr,
    env: process.env,
    cwd: process.cwd(),
    readFile,
    isFolder,
    ...(process.stdin.isTTY && stderr.isTerminal && { confirm }),
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
      startWorker(env, hear) {
        const child = Bun.spawn([...program, ...process.argv.slice(2)], {
          env: { ...process.env, ...env },
          stdio: ["ignore", "inherit", "inherit"],
          serialization: "json",
          ipc: hear,
        });
        return {
          id: child.pid,
          ended: child.exited,
          send: (message) => whileThere(() => child.send(message)),
          kill: () => child.kill("SIGKILL"),
        };
      },
      ...(process.send !== undefined && { parent: parentProcess() }),
      signal: (id, name) => void process.kill(id, name),
    },
    machine: { cores: availableParallelism(), sharesPorts: process.platform === "linux" },
  };
}

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
    send: (message) => whileThere(() => process.send!(message)),
    onMessage: (run) => void process.on("message", run),
    onGone(run) {
      if (process.connected) process.on("disconnect", run);
      else run();
    },
  };
}

/** The other one may have ended, which is heard of in another way. */
function whileThere(send: () => unknown): void {
  try {
    send();
  } catch {
    // Then there is nobody to tell.
  }
}

/** What can't be looked at is none. */
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
    // "EACCES: permission denied, open '/path'": the path is told by whoever asked.
    throw new Error(message.split(",")[0]);
  }
}

void main();
