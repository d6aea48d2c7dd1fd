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

test("any process reads, follows and cancels what another makes; kill -9 fails it, and it is not called again", async () => {
  using folder = new TempFolder();
  const streams: HeldStream[] = [];
  using upstream = new UpstreamServer(() => {
    const held = new HeldStream();
    streams.push(held);
    return held.response();
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
}, 60_000);

test("a process that is told to stop lets them finish first", async () => {
  using folder = new TempFolder();
  const held = new HeldStream();
  using upstream = new UpstreamServer(() => held.response());
  await using first = await TroupeProcess.start(folder.path, upstream.url);
  const { id } = await clientOf(first).responses.create({ model, input: "Hi", background: true });
  await upstream.received(1);
  held.fragment("Hello");
  first.signal("SIGTERM");
  await using second = await TroupeProcess.start(folder.path, upstream.url);
  expect(await clientOf(second).responses.retrieve(id)).toMatchObject({ status: "in_progress" });
  held.finish();
  expect(await until(clientOf(second), id, isOver)).toMatchObject({ status: "completed", output_text: "Hello" });
}, 60_000);
