/**
 * The load generator: takes a job on its input, performs it, prints its result.
 * Usage: `echo '<job>' | bun test/bench/load.ts`
 */
import { clientFormats } from "../helpers/client-formats.ts";
import {
  type AnswerCheck,
  type Expectation,
  expectedText,
  expectedTexts,
  PlainCheck,
  StreamCheck,
} from "./answer-check.ts";
import { parseAnswerShape, promptOf, promptText, writeDigits } from "./answer-shape.ts";
import { Connection, type Receiver } from "./http-client.ts";
import type { HeldStreams, Job, LoadResult, Memory, SlowReaders } from "./job.ts";
import { cpuSeconds, forgetPeak, peakBytes, proportionalBytes, residentBytes } from "./process-stats.ts";
import { median } from "./statistics.ts";
import { sinceBootMicroseconds } from "./system-clock.ts";

/** Keeps every nth of the values, n growing, so that no run fills the memory. */
class Samples {
  readonly #most = 4_096;
  #every = 1;
  #seen = 0;
  #kept: number[] = [];

  add(value: number): void {
    if (this.#seen++ % this.#every !== 0) return;
    this.#kept.push(value);
    if (this.#kept.length < this.#most) return;
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#every *= 2;
  }

  get values(): readonly number[] {
    return this.#kept.map((value) => Math.round(value * 1e3) / 1e3);
  }
}

const job: Job = JSON.parse(await Bun.stdin.text());
const shape = parseAnswerShape(job.mockModel);
// Anthropic takes no call without a bound.
const prompt = promptOf(job.promptKind, job.promptChars, job.format === "messages" ? 4096 : undefined);
const expectation: Expectation = {
  shape,
  format: job.format,
  streamed: job.streamed,
  includeUsage: job.includeUsage,
  ...(shape.echoesChecksum ? { text: String(Bun.hash.crc32(promptText(job.promptKind, job.promptChars))) } : {}),
};
const texts = expectedTexts(shape);
const text = expectedText(expectation);

const idDigits = 12;
const request = (() => {
  const isNamedInBody = clientFormats[job.format].path !== undefined;
  const body = JSON.stringify({
    ...(isNamedInBody && { model: job.model }),
    ...clientFormats[job.format].body(prompt),
    ...(isNamedInBody && job.streamed && { stream: true }),
    ...(job.includeUsage ? { stream_options: { include_usage: true } } : {}),
    ...job.fields,
  });
  const headers = {
    host: `127.0.0.1:${job.port}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    accept: job.streamed ? "text/event-stream" : "application/json",
    ...(job.identified ? { "service-request-id": `bench-${process.pid}-${Date.now()}-${"0".repeat(idDigits)}` } : {}),
    ...job.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST ${job.path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
})();
const idAt = request.indexOf("\r\n", request.indexOf("service-request-id:")) - idDigits;
let requests = 0;

function nextRequest(): Uint8Array {
  if (!job.identified) return request;
  const own = Uint8Array.from(request);
  writeDigits(own, idAt, idDigits, requests++);
  return own;
}

const state = {
  /** In the measured time. */
  measuring: false,
  calls: 0,
  fragments: 0,
  heldBack: 0,
  checkedCalls: 0,
  faults: new Map<string, number>(),
  callMs: new Samples(),
  firstFragmentMs: new Samples(),
  lagMs: new Samples(),
  besideMs: new Samples(),
};

function note(fault: string): void {
  const known = fault.slice(0, 300);
  if (state.faults.size < 20 || state.faults.has(known)) state.faults.set(known, (state.faults.get(known) ?? 0) + 1);
}

/** One call: checks its answer and times its fragments. */
class Call implements Receiver {
  readonly ended: Promise<void>;
  readonly #check: AnswerCheck;
  readonly #startedAt: number;
  readonly #leave: () => void;
  readonly #onFirst: (() => void) | undefined;
  #resolve!: () => void;
  #lastAt = 0;
  #refusal: string | undefined;

  constructor(leave: () => void, onFirst?: () => void) {
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#leave = leave;
    this.#onFirst = onFirst;
    this.#check = job.streamed
      ? new StreamCheck(expectation, texts, (index, at, sentAt) => this.#seen(index, at, sentAt))
      : new PlainCheck(text, job.format);
    this.#startedAt = performance.now();
  }

  head(status: number, head: string): void {
    const type = job.streamed ? "text/event-stream" : "application/json";
    if (status !== 200) this.#refusal = `status ${status}: `;
    else if (!head.toLowerCase().includes(`content-type: ${type}`)) this.#refusal = `not ${type}: ${head}`;
  }

  data(bytes: Uint8Array, at: number): void {
    if (this.#refusal === undefined) this.#check.push(bytes, at);
    else this.#refusal += Buffer.from(bytes).toString("utf8");
  }

  end(at: number): void {
    if (state.measuring) {
      state.calls++;
      state.callMs.add(at - this.#startedAt);
    }
    this.#finish(this.#refusal ?? this.#check.end());
  }

  fail(reason: string): void {
    this.#finish(`broken: ${reason}`);
  }

  #finish(fault: string | undefined): void {
    state.checkedCalls++;
    if (fault !== undefined) note(fault);
    this.#resolve();
  }

  #seen(index: number, at: number, sentAt: number): void {
    if (index === 0) {
      if (state.measuring) state.firstFragmentMs.add(at - this.#startedAt);
      this.#onFirst?.();
    }
    if (state.measuring) {
      state.fragments++;
      if (sentAt > 0) {
        state.lagMs.add((sinceBootMicroseconds(at) - sentAt) / 1e3);
        if (at === this.#lastAt) state.heldBack++;
      }
    }
    this.#lastAt = at;
    if (index + 1 === job.leaveAfter) {
      this.#leave();
      state.calls += state.measuring ? 1 : 0;
      this.#finish(undefined);
    }
  }
}

/** Idle connections, taken and given back. */
const idle: Connection[] = [];

async function connect(): Promise<Connection> {
  for (let known = idle.pop(); known !== undefined; known = idle.pop()) {
    if (known.usable) return known;
    known.close();
  }
  return Connection.open(job.port, (fault) => note(`broken: ${fault}`));
}

async function perform(onFirst?: (connection: Connection) => void): Promise<void> {
  try {
    const connection = await connect();
    const call = new Call(() => connection.close(), onFirst && (() => onFirst(connection)));
    connection.send(nextRequest(), call);
    await call.ended;
    if (connection.usable) idle.push(connection);
  } catch (error) {
    note(`broken: ${String(error)}`);
  }
}

const sleep = (seconds: number) => Bun.sleep(seconds * 1e3);

/** Counts and clocks of the measured time alone. */
async function measure(): Promise<{ seconds: number; cpuSeconds: number }> {
  await sleep(job.warmupSeconds);
  forgetPeak(job.watched);
  const cpuBefore = cpuSeconds(job.watched);
  const from = performance.now();
  state.measuring = true;
  await sleep(job.seconds);
  state.measuring = false;
  return { seconds: (performance.now() - from) / 1e3, cpuSeconds: cpuSeconds(job.watched) - cpuBefore };
}

type Measured = { seconds: number; cpuSeconds: number; held?: Pick<Memory, "heldBytes" | "heldProportionalBytes"> };

async function closedLoop(connections: number): Promise<Measured> {
  let open = true;
  // Begun one after the other, so that streams don't beat in step.
  const callers = Array.from({ length: connections }, async (_, number) => {
    await sleep((job.warmupSeconds * 0.8 * number) / connections);
    while (open) await perform();
  });
  const measured = await measure();
  open = false;
  await Promise.all(callers);
  return measured;
}

async function firstCalls(connections: number, calls: number): Promise<Measured> {
  const [cpuBefore, from] = [cpuSeconds(job.watched), performance.now()];
  state.measuring = true;
  let begun = 0;
  const callers = Array.from({ length: connections }, async () => {
    for (; begun < calls; ) {
      begun++;
      await perform();
    }
  });
  await Promise.all(callers);
  return { seconds: (performance.now() - from) / 1e3, cpuSeconds: cpuSeconds(job.watched) - cpuBefore };
}

/** Asks for a path beside the load until it is told to stop. @returns that */
function askBeside({ path, perSecond }: NonNullable<Job["beside"]>): () => Promise<void> {
  let open = true;
  const asking = (async () => {
    while (open) {
      const from = performance.now();
      const answer = await fetch(`http://127.0.0.1:${job.port}${path}`).catch((error) => note(`beside: ${error}`));
      await answer?.arrayBuffer();
      if (state.measuring) state.besideMs.add(performance.now() - from);
      await sleep(1 / perSecond);
    }
  })();
  return () => {
    open = false;
    return asking;
  };
}

async function openLoop(perSecond: number): Promise<Measured> {
  let open = true;
  const running = new Set<Promise<void>>();
  const begin = async () => {
    const from = performance.now();
    for (let number = 0; open; number++) {
      const wait = from + (number * 1e3) / perSecond - performance.now();
      if (wait > 0) await Bun.sleep(wait);
      const call = perform().finally(() => running.delete(call));
      running.add(call);
    }
  };
  const beginning = begin();
  const measured = await measure();
  open = false;
  await beginning;
  await Promise.all(running);
  return measured;
}

/** Begins streams at a rate; resolves when each has its first fragment. */
async function beginStreams(streams: number, perSecond: number, onFirst: (connection: Connection) => void) {
  const { promise: allBegun, resolve } = Promise.withResolvers<void>();
  const from = performance.now();
  const calls: Promise<void>[] = [];
  let begun = 0;
  for (let number = 0; number < streams; number++) {
    const wait = from + (number * 1e3) / perSecond - performance.now();
    if (wait > 1) await Bun.sleep(wait);
    calls.push(
      perform((connection) => {
        onFirst(connection);
        if (++begun === streams) resolve();
      }),
    );
  }
  const ended = Promise.all(calls);
  await Promise.race([allBegun, ended]);
  return { ended };
}

async function heldMemory(): Promise<NonNullable<Measured["held"]>> {
  const looks: [number, number][] = [];
  for (let look = 0; look < 5; look++) {
    await sleep(job.seconds / 10);
    looks.push([residentBytes(job.watched), proportionalBytes(job.watched)]);
  }
  return {
    heldBytes: median(looks.map(([resident]) => resident)),
    heldProportionalBytes: median(looks.map(([, proportional]) => proportional)),
  };
}

async function holdStreams({ streams, perSecond }: HeldStreams): Promise<Measured> {
  const [cpuBefore, from] = [cpuSeconds(job.watched), performance.now()];
  state.measuring = true;
  const { ended } = await beginStreams(streams, perSecond, () => {});
  const held = await heldMemory();
  await ended;
  return { seconds: (performance.now() - from) / 1e3, cpuSeconds: cpuSeconds(job.watched) - cpuBefore, held };
}

async function readSlowly({ streams, pauseSeconds }: SlowReaders): Promise<Measured> {
  const [cpuBefore, from] = [cpuSeconds(job.watched), performance.now()];
  const paused: Connection[] = [];
  state.measuring = true;
  const { ended } = await beginStreams(streams, streams * 10, (connection) => {
    connection.pause();
    paused.push(connection);
  });
  await sleep(pauseSeconds);
  const held = await heldMemory();
  for (const connection of paused) connection.resume();
  await ended;
  return { seconds: (performance.now() - from) / 1e3, cpuSeconds: cpuSeconds(job.watched) - cpuBefore, held };
}

async function run(): Promise<Measured> {
  switch (job.load.kind) {
    case "closed":
      return closedLoop(job.load.connections);
    case "first":
      return firstCalls(job.load.connections, job.load.calls);
    case "open":
      return openLoop(job.load.perSecond);
    case "held":
      return holdStreams(job.load);
    case "slow":
      return readSlowly(job.load);
  }
}

const idleBytes = residentBytes(job.watched);
const idleProportionalBytes = proportionalBytes(job.watched);
forgetPeak(job.watched);
const stopAsking = job.beside && askBeside(job.beside);
const { held, ...measured } = await run();
await stopAsking?.();
const result: LoadResult = {
  ...measured,
  calls: state.calls,
  fragments: state.fragments,
  callMs: state.callMs.values,
  firstFragmentMs: state.firstFragmentMs.values,
  lagMs: state.lagMs.values,
  besideMs: state.besideMs.values,
  heldBack: state.heldBack,
  checkedCalls: state.checkedCalls,
  faults: Object.fromEntries(state.faults),
  memory: {
    idleBytes,
    idleProportionalBytes,
    ...held,
    peakBytes: peakBytes(job.watched),
    endBytes: residentBytes(job.watched),
  },
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
