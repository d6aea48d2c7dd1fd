/** Responses in the background where several processes serve one data folder, and where one of them dies. */
import { expect, test } from "bun:test";
import OpenAI from "openai";
import type { Response as ResponseObject, ResponseStreamEvent } from "openai/resources/responses/responses";
import { HeldStream } from "../helpers/held-stream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const model = "openai/x";
const clientOf = ({ url, key }: TroupeProcess) =>
  new OpenAI({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries: 0 });

async function until(
  client: OpenAI,
  id: string,
  isReached: (found: ResponseObject) => boolean,
): Promise<ResponseObject> {
  for (;;) {
    const found = await client.responses.retrieve(id);
    if (isReached(found)) return found;
  }
}
const isOver = ({ status }: ResponseObject) => status !== "queued" && status !== "in_progress";

/** An answer in OpenAI's own format, moved by hand. */
class HeldResponse {
  readonly stream = new HeldStream();
  readonly #text: string[] = [];
  #number = 0;

  get response(): Response {
    return this.stream.response();
  }

  get cancelled(): Promise<void> {
    return this.stream.cancelled;
  }

  fragment(delta: string): void {
    if (this.#text.length === 0) {
      this.#tell("response.created", { response: this.#whole("in_progress") });
      this.#tell("response.output_item.added", { output_index: 0, item: { ...this.#message, content: [] } });
      this.#tell("response.content_part.added", { ...place, part: { ...this.#part, text: "" } });
    }
    this.#text.push(delta);
    this.#tell("response.output_text.delta", { ...place, delta, logprobs: [] });
  }

  finish(): void {
    this.#tell("response.output_text.done", { ...place, text: this.#part.text, logprobs: [] });
    this.#tell("response.content_part.done", { ...place, part: this.#part });
    this.#tell("response.output_item.done", { output_index: 0, item: this.#message });
    this.#tell("response.completed", { response: this.#whole("completed") });
    this.stream.close();
  }

  get #part() {
    return { type: "output_text", text: this.#text.join(""), annotations: [] };
  }

  get #message() {
    return { id: place.item_id, type: "message", role: "assistant", status: "completed", content: [this.#part] };
  }

  #whole(status: string): object {
    return {
      id: "resp_up",
      object: "response",
      status,
      model: "x",
      output: status === "completed" ? [this.#message] : [],
    };
  }

  #tell(type: string, fields: object): void {
    this.stream.send(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.#number, ...fields })}\n\n`);
    this.#number += 1;
  }
}

const place = { item_id: "msg_up", output_index: 0, content_index: 0 };

test("any process reads, follows and cancels what another makes; kill -9 fails it, and it is not called again", async () => {
  using folder = new TempFolder();
  const streams: HeldResponse[] = [];
  using upstream = new UpstreamServer(() => {
    const held = new HeldResponse();
    streams.push(held);
    return held.response;
  });
  await using maker = await TroupeProcess.start(folder.path, upstream.url);
  await using reader = await TroupeProcess.start(folder.path, upstream.url);
  const [made, read] = [clientOf(maker).responses, clientOf(reader)];
  let begun = 0;
  const begin = async () => {
    const { id } = await made.create({ model, input: "Hi", background: true });
    begun += 1;
    await upstream.received(begun);
    return { id, held: streams.at(-1)! };
  };

  const followed = await begin();
  expect(await read.responses.retrieve(followed.id)).toMatchObject({ status: "in_progress", background: true });
  followed.held.fragment("one ");
  const events: ResponseStreamEvent[] = [];
  for await (const event of await read.responses.retrieve(followed.id, { stream: true })) {
    events.push(event);
    if (event.type !== "response.output_text.delta") continue;
    if (event.delta === "one ") followed.held.fragment("two");
    else followed.held.finish();
  }
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
  expect(events.at(-1)!.type).toBe("response.completed");
  expect(await read.responses.retrieve(followed.id)).toMatchObject({ status: "completed", output_text: "one two" });

  const cancelled = await begin();
  cancelled.held.fragment("Hel");
  expect(await read.responses.cancel(cancelled.id)).toMatchObject({ status: "cancelled" });
  await cancelled.held.cancelled;
  expect(await made.retrieve(cancelled.id)).toMatchObject({ status: "cancelled" });

  const lost = await begin();
  lost.held.fragment("Hel");
  await maker.kill();
  const failed = await until(read, lost.id, isOver);
  expect(failed).toMatchObject({ status: "failed", output: [], error: { code: "server_error" } });
  expect(failed.error!.message).toContain("The server stopped");
  await using restarted = await TroupeProcess.start(folder.path, upstream.url);
  expect(await clientOf(restarted).responses.retrieve(lost.id)).toEqual(failed);
  expect(upstream.requests.length).toBe(3);
});

test("a process that is told to stop lets them finish first", async () => {
  using folder = new TempFolder();
  const held = new HeldResponse();
  using upstream = new UpstreamServer(() => held.response);
  await using first = await TroupeProcess.start(folder.path, upstream.url);
  const { id } = await clientOf(first).responses.create({ model, input: "Hi", background: true });
  await upstream.received(1);
  held.fragment("Hello");
  first.signal("SIGTERM");
  await using second = await TroupeProcess.start(folder.path, upstream.url);
  expect(await clientOf(second).responses.retrieve(id)).toMatchObject({ status: "in_progress" });
  held.finish();
  expect(await until(clientOf(second), id, isOver)).toMatchObject({ status: "completed", output_text: "Hello" });
});
