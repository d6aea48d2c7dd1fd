/**
 * `kill -9` under load, again and again, and what was promised to clients. A dozen lives in the normal run; for hundreds:
 * CRASH_LIVES=300 CRASH_SEED=… bun test test/idempotency/crash.test.ts
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { databaseName } from "../../src/store/sqlite/store.ts";
import { isLongForm } from "../helpers/long-form.ts";
import { Random } from "../helpers/random.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

type Asked = { readonly messages: [{ content: string }]; readonly stream?: boolean };

/** An upstream whose every answer names its call, so that two can't be mistaken for one. */
class NumberedUpstream implements Disposable {
  /** Calls by what was said, which is the request's id. */
  readonly calls = new Map<string, number>();
  readonly #server = new UpstreamServer((request) => this.#answer(request));
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  get url(): string {
    return this.#server.url;
  }

  async #answer({ json }: RecordedRequest): Promise<Response> {
    const { messages, stream } = json as Asked;
    const id = messages[0].content;
    const call = (this.calls.get(id) ?? 0) + 1;
    this.calls.set(id, call);
    const text = `${id} call ${call} `;
    await Bun.sleep(this.#random.below(30));
    if (stream !== true) {
      const message = { role: "assistant", content: text.repeat(20) };
      return jsonResponse({ choices: [{ index: 0, message, finish_reason: "stop" }] });
    }
    return new Response(this.#events(text), { headers: { "content-type": "text/event-stream" } });
  }

  /** Long enough for some to leave memory while they run. */
  async *#events(text: string): AsyncGenerator<string> {
    const event = (choice: object) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
    const chunks = 20 + this.#random.below(this.#random.chance(20) ? 800 : 60);
    for (let at = 0; at < chunks; at += 1) {
      yield event({ delta: { content: `${text}${at};` }, finish_reason: null });
      if (at % 8 === 0) await Bun.sleep(this.#random.below(4));
    }
    yield `${event({ delta: { content: `of ${chunks}` }, finish_reason: "stop" })}data: [DONE]\n\n`;
  }

  [Symbol.dispose](): void {
    this.#server[Symbol.dispose]();
  }
}

/** One id, and all that its client has seen. */
class Request {
  readonly id: string;
  readonly stream: boolean;
  /** The answer that was seen complete. */
  complete: string | undefined;
  /** Events of a stream that broke, with their ids. */
  partial: string[] = [];

  constructor(id: string, stream: boolean) {
    this.id = id;
    this.stream = stream;
  }

  /** Asks once. @returns whether it was answered to the end */
  async ask(troupe: TroupeProcess, resume: boolean): Promise<boolean> {
    const lastEventId = resume ? /^id: (.*)$/m.exec(this.partial.at(-1) ?? "")?.[1] : undefined;
    let text = "";
    let whole = false;
    let replayed = false;
    try {
      const response = await fetch(`${troupe.url}/gateway/v1/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${troupe.key}`,
          "content-type": "application/json",
          "service-request-id": this.id,
          ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
        },
        body: JSON.stringify({
          model: "openai/x",
          messages: [{ role: "user", content: this.id }],
          ...(this.stream && { stream: true }),
        }),
      });
      expect([this.id, response.status]).toEqual([this.id, 200]);
      replayed = response.headers.get("idempotent-replayed") === "true";
      const decoder = new TextDecoder();
      for await (const part of response.body!) text += decoder.decode(part, { stream: true });
      whole = !text.includes('data: {"error":');
    } catch (error) {
      // Connections to a killed process break; wrong answers do not count as that.
      if ((error as Error).name.startsWith("JestAssertion") || /expect\(/.test(String(error))) throw error;
    }
    if (this.stream) this.#takeStream(text, lastEventId, whole);
    else if (whole) this.#takeComplete(text);
    if (this.complete !== undefined && whole && this.#seenBefore) expect([this.id, replayed]).toEqual([this.id, true]);
    this.#seenBefore ||= this.complete !== undefined;
    return whole;
  }

  #seenBefore = false;

  #takeStream(text: string, lastEventId: string | undefined, whole: boolean): void {
    const events = text
      .split("\n\n")
      .slice(0, -1)
      .filter((event) => !event.startsWith(":"));
    const continues = lastEventId !== undefined && events[0]?.startsWith(`id: ${lastEventId.split("-")[0]}-`) === true;
    const all = continues ? [...this.partial, ...events] : events;
    for (const [at, event] of all.entries()) expect(event).toMatch(new RegExp(`^id: [0-9a-f]{8}-${at}\ndata: `));
    if (all.at(-1)?.endsWith("data: [DONE]") !== true) {
      expect([this.id, whole]).toEqual([this.id, false]);
      this.partial = all;
      return;
    }
    this.#takeComplete(`${all.join("\n\n")}\n\n`);
    this.partial = [];
  }

  #takeComplete(text: string): void {
    if (this.complete !== undefined) {
      expect(text).toBe(this.complete);
      return;
    }
    this.complete = text;
    const said = [...text.matchAll(/"content":"([^"]*)"/g)].map(([, content]) => content).join("");
    const call = /call (\d+)/.exec(said)?.[1];
    const piece = `${this.id} call ${call} `;
    if (!this.stream) {
      expect(said).toBe(piece.repeat(20));
      return;
    }
    // Whole, in order, and all of one upstream call.
    const chunks = Number(/of (\d+)$/.exec(said)?.[1]);
    expect(said).toBe(`${Array.from({ length: chunks }, (_, at) => `${piece}${at};`).join("")}of ${chunks}`);
  }
}

const random = Random.fromEnvironment("CRASH_SEED");
const lives = Number(process.env["CRASH_LIVES"] ?? (isLongForm ? 30 : 4));

test(
  "every answer seen complete is replayed, every half one is made anew, and nothing stays claimed",
  async () => {
    using folder = new TempFolder();
    using upstream = new NumberedUpstream(random);
    const requests: Request[] = [];
    let broken = 0;
    try {
      for (let life = 0; life < lives; life += 1) {
        const troupe = await TroupeProcess.start(folder.path, upstream.url);
        const callsBefore = new Map(upstream.calls);
        const wasComplete = new Set(requests.filter(({ complete }) => complete !== undefined).map(({ id }) => id));
        const unfinished = requests.filter(({ complete }) => complete === undefined);
        const again = Array.from({ length: Math.min(20, requests.length) }, () => random.pick(requests));
        const fresh = Array.from({ length: 40 }, (_, at) => new Request(`life${life}-${at}`, random.chance(70)));
        requests.push(...fresh);
        const asked = [...new Set([...unfinished, ...again, ...fresh])];
        let working = true;
        const killed = Bun.sleep(30 + random.below(400)).then(async () => {
          await troupe.kill();
          working = false;
        });
        // Eight clients take one request after the other until the process dies under them.
        const work = Array.from({ length: 8 }, async () => {
          for (let next = asked.shift(); next !== undefined && working; next = asked.shift()) {
            if (!(await next.ask(troupe, random.chance(50)))) broken += 1;
          }
        });
        await Promise.all([killed, ...work]);
        for (const id of wasComplete) expect([id, upstream.calls.get(id)]).toEqual([id, callsBefore.get(id)]);
      }
      await using troupe = await TroupeProcess.start(folder.path, upstream.url);
      const last = requests.values();
      const work = Array.from({ length: 8 }, async () => {
        for (const request of last) {
          const calls = request.complete === undefined ? undefined : upstream.calls.get(request.id);
          expect([request.id, await request.ask(troupe, random.chance(50))]).toEqual([request.id, true]);
          if (calls !== undefined) expect([request.id, upstream.calls.get(request.id)]).toEqual([request.id, calls]);
        }
      });
      await Promise.all(work);
    } catch (error) {
      console.error(`crash: CRASH_SEED=${random.seed} CRASH_LIVES=${lives} fails`);
      throw error;
    }
    using database = new Database(join(folder.path, databaseName), { readonly: true });
    expect(database.query("pragma integrity_check").values()).toEqual([["ok"]]);
    expect(database.query("select count(*) from kept_calls where state = 'running'").values()).toEqual([[0]]);
    const complete = requests.filter((request) => request.complete !== undefined).length;
    console.info(`crash: ${lives} lives, ${complete} answers, ${broken} broken connections, seed ${random.seed}`);
    expect(complete).toBe(requests.length);
    if (lives >= 12) expect(broken).toBeGreaterThan(0);
  },
  lives * 20_000,
);

test("two processes on one folder: one call for each id, whichever is asked, and when one is killed the other goes on", async () => {
  using folder = new TempFolder();
  using upstream = new NumberedUpstream(random);
  console.info(`crash: two processes, seed ${random.seed}`);
  const [one, two] = await Promise.all([0, 1].map(() => TroupeProcess.start(folder.path, upstream.url)));
  await using first = one!;
  await using second = two!;
  const race = (ids: string[]) =>
    Promise.all(
      ids.flatMap((id, at) => {
        const asking = Array.from({ length: 4 }, () => new Request(id, at % 3 !== 0));
        return asking.map(async (request, caller) => {
          const whole = await request.ask(caller % 2 === 0 ? first : second, false);
          return { id, caller, whole, complete: request.complete };
        });
      }),
    );
  const answers = await race(Array.from({ length: 30 }, (_, at) => `race-${at}`));
  for (const { id, whole, complete } of answers) {
    expect([id, whole, upstream.calls.get(id)]).toEqual([id, true, 1]);
    expect(complete).toBe(answers.find((answer) => answer.id === id)?.complete);
  }
  const killed = Bun.sleep(20 + random.below(60)).then(() => first.kill());
  const split = await race(Array.from({ length: 20 }, (_, at) => `split-${at}`));
  await killed;
  for (const { id } of split) {
    const request = new Request(id, Number(id.split("-")[1]) % 3 !== 0);
    expect([id, await request.ask(second, false)]).toEqual([id, true]);
    for (const other of split)
      if (other.id === id && other.complete !== undefined) expect(other.complete).toBe(request.complete!);
    expect([id, upstream.calls.get(id)! <= 2]).toEqual([id, true]);
  }
});
