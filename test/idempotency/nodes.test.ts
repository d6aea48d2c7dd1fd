/** Two nodes, each a process with a data folder of its own, on one PostgreSQL database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { HeldStream } from "../helpers/held-stream.ts";
import { longTest } from "../helpers/long-form.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

/** One call at the upstream: what it was asked, and the stream that the test moves. */
class Calls implements Disposable {
  readonly streams: HeldStream[] = [];
  readonly upstream = new UpstreamServer(() => {
    const stream = new HeldStream();
    this.streams.push(stream);
    return stream.response();
  });

  [Symbol.dispose](): void {
    this.upstream[Symbol.dispose]();
  }
}

class House implements AsyncDisposable {
  readonly calls = new Calls();
  readonly #folders = [new TempFolder(), new TempFolder()];
  one!: TroupeProcess;
  two!: TroupeProcess;

  static async open(url: string): Promise<House> {
    const house = new House();
    const { calls } = house;
    const [first, second] = house.#folders;
    for (const folder of house.#folders) {
      writeFileSync(folder.file("troupe.yaml"), "store: {url: '${DB}', lease_seconds: 3}\n");
    }
    const env = { DB: url };
    house.one = await TroupeProcess.start(first!.path, calls.upstream.url, { env });
    house.two = await TroupeProcess.start(second!.path, calls.upstream.url, { env, key: house.one.key });
    return house;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.one.kill();
    await this.two.kill();
    this.calls[Symbol.dispose]();
    for (const folder of this.#folders) folder[Symbol.dispose]();
  }
}

/** A streamed call, and all that its client has read. */
class Reader {
  text = "";
  readonly #wakes = new Set<() => void>();
  readonly ended: Promise<void>;
  status = 0;

  constructor(node: TroupeProcess, id: string, lastEventId?: string) {
    // A node that is killed resets its clients' connections.
    this.ended = this.#read(node, id, lastEventId).catch(() => {});
  }

  async #read(node: TroupeProcess, id: string, lastEventId: string | undefined): Promise<void> {
    const response = await fetch(`${node.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${node.key}`,
        "content-type": "application/json",
        "service-request-id": id,
        ...(lastEventId && { "last-event-id": lastEventId }),
      },
      body: JSON.stringify({ model: "openai/m", stream: true, messages: [{ role: "user", content: id }] }),
    });
    this.status = response.status;
    for await (const part of response.body!.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
      this.text += part;
      for (const wake of this.#wakes) wake();
    }
  }

  /** Resolves once it has read that. */
  async saw(text: string): Promise<void> {
    while (!this.text.includes(text)) await new Promise<void>((wake) => this.#wakes.add(wake));
  }

  get contents(): string {
    return [...this.text.matchAll(/"content":"([^"]*)"/g)].map(([, content]) => content).join("");
  }

  idOf(content: string): string {
    const event = this.text.split("\n\n").find((one) => one.includes(`"content":"${content}"`))!;
    return /^id: (.*)$/m.exec(event)![1]!;
  }
}

/** One of a node's metrics. */
async function metric(node: TroupeProcess, name: string): Promise<number> {
  const text = await (await fetch(`${node.url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

describe.skipIf(!hasPostgres)("two nodes on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const open = async () => House.open(await server.createDatabase());

  test("racing callers on both get one upstream call; a stream is joined and resumed live on the other", async () => {
    await using house = await open();
    const { one, two, calls } = house;
    const readers = Array.from({ length: 12 }, (_, at) => new Reader(at % 2 === 0 ? one : two, "race"));
    await calls.upstream.received(1);
    calls.streams[0]!.fragment("a");
    for (const reader of readers) await reader.saw('"a"');
    const resumed = new Reader(two, "race", readers[0]!.idOf("a"));
    const onOne = new Reader(one, "race", readers[1]!.idOf("a"));
    calls.streams[0]!.fragment("b");
    for (const reader of [...readers, resumed, onOne]) await reader.saw('"b"');
    const joined = async () =>
      (await metric(one, "troupe_joined_stored")) + (await metric(two, "troupe_joined_stored"));
    // One of the nodes makes the call; the other one's readers and maybe the one that resumes there join it.
    expect(await joined()).toBeGreaterThanOrEqual(6);
    calls.streams[0]!.finish();
    for (const reader of [...readers, resumed, onOne]) await reader.ended;
    expect(calls.upstream.requests).toHaveLength(1);
    for (const reader of readers) expect(reader.text).toBe(readers[0]!.text);
    expect([resumed.contents, onOne.contents]).toEqual(["b", "b"]);
    expect(readers[0]!.text).toEndWith("data: [DONE]\n\n");
  });

  test("an upstream's error is told to readers on both, and who comes later calls anew", async () => {
    await using house = await open();
    const { one, two, calls } = house;
    const first = new Reader(one, "f");
    await calls.upstream.received(1);
    calls.streams[0]!.fragment("a");
    await first.saw('"a"');
    const joined = new Reader(two, "f");
    await joined.saw('"a"');
    calls.streams[0]!.event({ error: { message: "overheated", type: "server_error" } });
    calls.streams[0]!.close();
    await Promise.all([first.ended, joined.ended]);
    expect(first.text).toContain("overheated");
    expect(joined.text).toBe(first.text);
    expect(calls.upstream.requests).toHaveLength(1);
    const anew = new Reader(two, "f", joined.idOf("a"));
    await calls.upstream.received(2);
    calls.streams[1]!.fragment("new");
    calls.streams[1]!.finish();
    await anew.ended;
    expect(anew.contents).toBe("new");
  });

  test("the calls of a node that was killed are taken over after its lease, and no answer is mixed", async () => {
    await using house = await open();
    const { one, two, calls } = house;
    const first = new Reader(one, "k");
    await calls.upstream.received(1);
    calls.streams[0]!.fragment("old");
    await first.saw('"old"');
    const joined = new Reader(two, "k");
    await joined.saw('"old"');
    await one.kill();
    await first.ended;
    await joined.ended;
    expect(joined.text).toContain("upstream_unavailable");
    const anew = new Reader(two, "k", joined.idOf("old"));
    await calls.upstream.received(2);
    calls.streams[1]!.fragment("new");
    calls.streams[1]!.finish();
    await anew.ended;
    expect(anew.contents).toBe("new");
    expect(calls.upstream.requests).toHaveLength(2);
  });

  longTest(
    "a node that was paused beyond its lease stops its streams, and writes nothing over the other's answer",
    async () => {
      await using house = await open();
      const { one, two, calls } = house;
      const paused = new Reader(one, "p");
      await calls.upstream.received(1);
      calls.streams[0]!.fragment("old");
      await paused.saw('"old"');
      one.signal("SIGSTOP");
      const waiting = new Reader(two, "p");
      // It waits for the owner, whose lease lapses meanwhile, and then calls itself.
      await calls.upstream.received(2);
      calls.streams[1]!.fragment("new");
      await waiting.saw('"new"');
      calls.streams[0]!.fragment("late");
      calls.streams[0]!.finish();
      one.signal("SIGCONT");
      await paused.ended;
      expect(paused.text).toContain("upstream_unavailable");
      expect(paused.contents).toBe("old");
      calls.streams[1]!.finish();
      await waiting.ended;
      for (const node of [one, two]) {
        const again = new Reader(node, "p");
        await again.ended;
        expect(again.text).toBe(waiting.text);
        expect(again.contents).toBe("new");
      }
      expect(calls.upstream.requests).toHaveLength(2);
    },
  );
});
