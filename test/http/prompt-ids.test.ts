/** Applications that name prompts which lay at OpenAI, with the official client: another base address, and nothing else changed. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type OpenAI from "openai";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const yaml = (system: string, model: string, prompts: string) => `description: A guide.
model: ${model}
system: ${system}
variables:
  customer_name: { required: true }
  issue: { default: nothing }
prompt_ids:
${prompts}`;

const text = { type: "output_text", text: "hello", annotations: [] };
const response = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m" },
  output: [{ type: "message", id: "msg_1", role: "assistant", status: "completed", content: [text] }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};
const anthropicMessage = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn", stop_sequence: null },
  content: [{ type: "text", text: "hello" }],
  usage: { input_tokens: 1, output_tokens: 1 },
};
const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
const upstream = untilEnd(
  new UpstreamServer(({ path }) =>
    jsonResponse(path.endsWith("/responses") ? response : path.endsWith("/messages") ? anthropicMessage : completion),
  ),
);
const write = (path: string, text: string) => writeFileSync(folder.file(path), text);
write(
  "acme/first.yaml",
  yaml("First for {{customer_name}} about {{issue}}.", "groq/m", "  pmpt_old: { '1': current }\n"),
);
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      openai: { baseUrl: upstream.url },
      groq: { baseUrl: upstream.url },
      anthropic: { baseUrl: upstream.url },
    },
    personas: folder.path,
  }),
);
const { services } = troupe.server;
const reread = async () => {
  await services.rereadPersonas();
  await services.personaVersions.record();
};
await reread();
const first = services.personas.find("acme/first")!.version;
const prompts = `  pmpt_123:\n    "1": "${first}"\n    "2": stable\n    "3": current\n  pmpt_default: { default: stable, "9": current }\n`;
write("acme/first.yaml", yaml("Second for {{customer_name}} about {{issue}}.", "groq/m", prompts));
await reread();
const second = services.personas.find("acme/first")!.version;
write("labels.yaml", `acme/first: { stable: "${second}" }\n`);
write("acme/first.yaml", yaml("Third for {{customer_name}} about {{issue}}.", "groq/m", prompts));
write("acme/native.yaml", yaml("Native for {{customer_name}} about {{issue}}.", "openai/m", "  pmpt_native: {}\n"));
write("acme/claude.yaml", yaml("Claude for {{customer_name}} about {{issue}}.", "anthropic/m", "  pmpt_claude: {}\n"));
await reread();

const surfaces = ["orchestrator", "gateway"] as const;
type Sent = {
  messages?: { role: string; content: string }[];
  input?: unknown;
  prompt?: unknown;
  instructions?: string;
  model: string;
};
const sent = () => upstream.last.json as Sent;
const variables = { customer_name: "Acme", issue: "billing" };
const failure = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    () => undefined,
    (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
  );

describe.each(surfaces)("on the %s", (surface) => {
  const client = () => troupe.client(surface);

  test.each([
    ["1", "First", () => first],
    ["2", "Second", () => second],
    ["3", "Third", () => troupe.server.services.personas.find("acme/first")!.version],
    [undefined, "Third", () => troupe.server.services.personas.find("acme/first")!.version],
  ] as const)(
    "version %s of a prompt is answered by the persona's own, with or without input",
    async (version, word, expected) => {
      const prompt = { id: "pmpt_123", ...(version !== undefined && { version }), variables };
      for (const input of [{}, { input: "Hi" }, { input: "Hi", model: "gpt-5.4" }]) {
        const { data, response } = await client()
          .responses.create({ prompt, ...input })
          .withResponse();
        expect(response.headers.get("x-troupe-persona-version")).toBe(expected());
        expect(data.output_text).toBe("hello");
        expect(data.prompt).toEqual(prompt);
        expect(data.model).toStartWith("acme/first");
        expect(sent().messages).toEqual([
          { role: "system", content: `${word} for Acme about billing.` },
          ...("input" in input ? [{ role: "user", content: "Hi" }] : []),
        ]);
      }
    },
  );

  test("without a version the one that default names answers", async () => {
    await client().responses.create({ prompt: { id: "pmpt_default", variables }, input: "Hi" });
    expect(sent().messages![0]!.content).toStartWith("Second");
  });

  test("variables may be input_text; what can't be carried is named", async () => {
    const asText = { customer_name: { type: "input_text", text: "Bo" } } as const;
    await client().responses.create({ prompt: { id: "pmpt_123", version: "3", variables: asText }, input: "Hi" });
    expect(sent().messages![0]!.content).toBe("Third for Bo about nothing.");
    const image = { type: "input_image", image_url: "https://x.test/a.png", detail: "auto" } as const;
    const of = (given: Record<string, unknown>) =>
      failure(
        client().responses.create({ prompt: { id: "pmpt_123", variables: given as typeof asText }, input: "Hi" }),
      );
    expect(await of({ ...asText, issue: image })).toMatchObject({
      status: 400,
      param: "prompt.variables.issue",
      message: expect.stringContaining("must be a string, not input_image"),
    });
    expect(await of({ issue: "x" })).toMatchObject({ status: 400, param: "prompt.variables.customer_name" });
    expect(await of({ ...asText, other: "x" })).toMatchObject({ status: 400, param: "prompt.variables.other" });
  });

  test("a stream is answered too, stored, and continued", async () => {
    const events = client().responses.stream({ prompt: { id: "pmpt_claude", variables } } as unknown as {
      model: string;
    });
    const final = await events.finalResponse();
    expect(final.prompt).toMatchObject({ id: "pmpt_claude" });
    const kept = await client().responses.retrieve(final.id);
    expect(kept.output_text).toBe(final.output_text);
    await client().responses.create({
      prompt: { id: "pmpt_claude", variables },
      previous_response_id: final.id,
      input: "More",
    });
    expect(JSON.stringify(sent().messages)).toContain("More");
  });

  test("an upstream of the same format gets the text in the prompt's place, with and without input", async () => {
    const store = { store: false };
    const { prompt } = await client().responses.create({ prompt: { id: "pmpt_native", variables }, ...store });
    expect(prompt).toMatchObject({ id: "pmpt_native" });
    expect(sent()).not.toHaveProperty("prompt");
    expect(sent().input).toEqual([{ role: "developer", content: "Native for Acme about billing." }]);
    await client().responses.create({
      prompt: { id: "pmpt_native", variables },
      model: "gpt-5.4",
      input: "Hi",
      ...store,
    });
    expect(sent()).toMatchObject({ model: "m", instructions: "Native for Acme about billing.", input: "Hi" });
    expect(sent()).not.toHaveProperty("prompt");
  });

  test("a model that needs a turn gets the text as one", async () => {
    await client().responses.create({ prompt: { id: "pmpt_claude", variables } });
    expect(JSON.stringify(sent().messages)).toContain("Claude for Acme about billing.");
  });

  test("an unknown one is OpenAI's own error, and an unknown version names those there are", async () => {
    expect(await failure(client().responses.create({ prompt: { id: "pmpt_none" }, input: "Hi" }))).toMatchObject({
      status: 404,
      type: "invalid_request_error",
      param: "prompt.id",
      error: expect.objectContaining({ message: "Prompt with id 'pmpt_none' not found." }),
    });
    expect(
      await failure(client().responses.create({ prompt: { id: "pmpt_123", version: "7" }, input: "Hi" })),
    ).toMatchObject({
      status: 400,
      param: "prompt.version",
      error: expect.objectContaining({
        message: "Prompt with id 'pmpt_123' and version '7' not found. Its versions here are 1, 2, 3.",
      }),
    });
  });

  test("a key that may not use the persona does not see its prompts", async () => {
    const apiKey = await troupe.createKey({ name: "other", tier: "pro", models: ["groq/*"] });
    const other = troupe.client(surface, { apiKey });
    for (const version of ["1", "7"])
      expect(
        await failure(other.responses.create({ prompt: { id: "pmpt_123", version, variables }, input: "Hi" })),
      ).toMatchObject({
        status: 404,
        error: expect.objectContaining({ message: "Prompt with id 'pmpt_123' not found." }),
      });
  });
});

test("on the gateway the key's hits on the orchestrator count them, and the ledger has the persona", async () => {
  const apiKey = await troupe.createKey({ name: "limited", tier: "free" });
  const client = troupe.client("gateway", { apiKey });
  const call = () => failure(client.responses.create({ prompt: { id: "pmpt_123", variables }, input: "Hi" }));
  for (let at = 0; at < 10; at += 1) expect(await call()).toBeUndefined();
  expect(await call()).toMatchObject({ status: 429 });
  const { services } = troupe.server;
  await services.ledger.flush();
  const [line] = await services.store.ledger.lines({
    since: 0,
    until: Date.now() + 60_000,
    limit: 1,
    where: { ended: "finished" },
  });
  expect(line).toMatchObject({ surface: "gateway", persona: "acme/first", personaVersion: expect.any(String) });
});

test("a persona's own id, its versions and labels are prompts as well", async () => {
  const client = troupe.client("orchestrator");
  for (const [version, word] of [
    [first, "First"],
    ["stable", "Second"],
    [null, "Third"],
  ] as const) {
    await client.responses.create({ prompt: { id: "acme/first", version, variables }, input: "Hi" });
    expect(sent().messages![0]!.content).toStartWith(word);
  }
  const { input_tokens } = (await (
    await troupe.post("/v1/responses/input_tokens", { prompt: { id: "pmpt_123", variables }, input: "Hi" })
  ).json()) as { input_tokens: number };
  expect(input_tokens).toBeGreaterThan(0);
});
