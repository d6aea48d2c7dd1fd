/** Calls that become tests. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { attemptsOf } from "../../../src/operate/calls.ts";
import { completionOf } from "../../helpers/chat-upstream.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest } from "../../helpers/upstream-server.ts";
import { type Body, testFile, Workplace } from "./workplace.ts";

const answerTo = (question: string) =>
  question.includes("JSON")
    ? '{"days": 14}'
    : question.includes("essay")
      ? "Well. ".repeat(40)
      : `14 days, ${question}`;
const answer = ({ json }: RecordedRequest) =>
  jsonResponse(completionOf({ content: answerTo((json as Body).messages.at(-1)!.content) }));

const log = { level: "error", format: "json", content: true, sample: 1, omit: [], redact: [] } as const;

/** @returns the request's id, once its line is in the ledger: a call ends a moment after its answer came */
async function written({ server }: Troupe, { headers }: Response): Promise<string> {
  const id = headers.get("x-request-id")!;
  const { ledger, store } = server.services;
  while ((await attemptsOf(store.ledger, id)).length === 0) {
    await new Promise<void>((resolve) => void setImmediate(resolve));
    await ledger.flush();
  }
  return id;
}

/** A server whose calls are kept, and a command line at its folder. */
async function start(files: Record<string, string> = {}, redact = "[]") {
  const place = new Workplace(files, answer);
  const data = place.folder.file("data");
  const troupe = await Troupe.start({
    personas: place.folder.file("personas"),
    data,
    providers: { openai: { baseUrl: place.upstream.url } },
    config: { log: { ...log } },
  });
  await troupe.server.services.loading;
  place.write(
    "troupe.yaml",
    `providers: {openai: {base_url: ${place.upstream.url}, api_key: k}}\nlog: {content: true, redact: ${redact}}\n`,
  );
  const call = async (content: string, more: object = { store: true }): Promise<[string, string]> => {
    const response = await troupe.post("/v1/chat/completions", {
      ...{ model: "acme/support", messages: [{ role: "user", content }] },
      ...more,
    });
    expect(response.status).toBe(200);
    const { id } = (await response.json()) as { id: string };
    return [await written(troupe, response), id];
  };
  return {
    ...{ place, troupe, call },
    keep: (id: string, ...words: string[]) => place.shell.run(["personas", "keep-test", id, "--data", data, ...words]),
    async [Symbol.asyncDispose]() {
      await troupe[Symbol.asyncDispose]();
      place[Symbol.dispose]();
    },
  };
}

describe("personas keep-test", () => {
  test("puts a stored call below the tests that there are, with an assertion that fits", async () => {
    const ours = "# Ours.\nprompts: ['{{q}}']  # asked\ntests:\n- vars: {q: Hello}   # always\n  assert: []\n";
    await using house = await start({ [testFile]: ours });
    const { place } = house;
    const [short] = await house.call("how long?");
    const { code, out } = await house.keep(short);
    expect({ code, out }).toEqual({
      code: 0,
      out: `Kept in ${place.folder.file(testFile)}:6 as 'how long?' (contains).\n`,
    });
    const first =
      "- description: how long?\n  vars:\n    q: how long?\n  assert:\n    - type: contains\n      value: 14 days, how long?\n";
    expect(place.read(testFile)).toBe(ours + first);
    const [data] = await house.call("as JSON");
    expect((await house.keep(data, "--name", "is data")).code).toBe(0);
    const second =
      "- description: is data\n  vars:\n    q: as JSON\n  assert:\n    - type: equals\n      value:\n        days: 14\n";
    expect(place.read(testFile)).toBe(ours + first + second);
    const [long] = await house.call("an essay");
    expect((await house.keep(long)).err).toStartWith("error: The answer is too long to be expected as a whole: ");
    expect((await house.keep(long, "--expect", "Says well", "--grader", "openai/gpt-5.4-mini")).code).toBe(0);
    expect(place.read(testFile)).toEndWith(
      "    - type: llm-rubric\n      value: Says well\n      provider: openai/gpt-5.4-mini\n",
    );
    const { code: judged, out: replayed } = await place.shell.run("personas test --filter how|data");
    expect({ judged, replayed: replayed.includes("2 passed; 2 tests") }).toEqual({ judged: 0, replayed: true });
  });

  test("takes the turns along that it continues, and the variables that are given", async () => {
    await using house = await start({}, "[emails]");
    const { place } = house;
    const [, first] = await house.call("I am ada@corp.io.");
    const [second] = await house.call("who am I?", { store: true, previous_response_id: first });
    const { code } = await house.keep(second, "--variables", "language=German", "--expect", "14 days");
    expect(code).toBe(0);
    expect(place.read(testFile)).toBe(`prompts: ["{{question}}"]
tests:
  - description: I am person-1@example.com.
    vars:
      language: German
    messages:
      - role: user
        content: I am person-1@example.com.
      - role: assistant
        content: 14 days, I am person-1@example.com.
      - role: user
        content: who am I?
    assert:
      - type: contains
        value: 14 days
`);
    const acts = await house.troupe.server.services.store.audit.list({
      ...{ before: null, limit: 10, actor: null, act: "content.read", subject: null },
    } as never);
    expect(acts.map(({ subject }) => subject)).toEqual([second]);
  });

  test("writes nothing where something is not right, and says what", async () => {
    const ours = 'prompts: ["{{question}}"]\ntests:\n  - description: how long?\n    vars: {question: hm}\n';
    await using house = await start({ [testFile]: ours });
    const { place, keep } = house;
    const file = place.folder.file(testFile);
    const [id] = await house.call("how long?");
    const refused = async (...words: [string, ...string[]]) => {
      const before = existsSync(file) ? place.read(testFile) : undefined;
      const { code, err } = await keep(...words);
      expect(code).toBe(1);
      expect(existsSync(file) ? place.read(testFile) : undefined).toBe(before);
      return err.trimEnd().replace("error: ", "");
    };
    expect(await refused(id, "--name", "how long?")).toBe(
      `${file}:3 has a test 'how long?' already; nothing was written.`,
    );
    expect((await keep(id, "--name", "kept")).code).toBe(0);
    expect(await refused(id, "--name", "again")).toBe(`${file}:5: 'kept' asks the same; nothing was written.`);
    expect(await refused("req_none")).toBe("There is no call 'req_none' in the ledger.");
    const [unstored] = await house.call("how long?", {});
    expect(await refused(unstored)).toStartWith(
      `What was said in ${unstored} is not kept: only calls with store: true`,
    );
    place.write(testFile, "tests:\n  - assert: [{type: contians, value: x}]\n");
    expect(await refused(id)).toBe(
      `${file}:2:21: tests[0].assert[0].type: 'contians' is no assertion; did you mean 'contains'?\nNothing was written.`,
    );
    place.write(testFile, ours);
    place.write(
      "personas/acme/support.yaml",
      "description: Help.\nmodel: openai/gpt-5.4\nsystem: 'Help {{of}}.'\nvariables: {of: {required: true}}\n",
    );
    expect(await refused(id)).toStartWith("acme/support would refuse this test: ");
    place.write("personas/acme/support.yaml", "description: [\n");
    expect(await refused(id)).toStartWith(`${place.folder.file("personas/acme/support.yaml")}:1:14: `);
    place.write("troupe.yaml", "providers: {openai: {api_key: k}}\n");
    expect(await refused(id)).toBe(
      "What was said in calls is not to be read: set log.content to true in the configuration.",
    );
  });

  test("is of a persona that has a file", async () => {
    using place = new Workplace({}, answer);
    await using troupe = await Troupe.start({
      data: place.folder.file("data"),
      providers: { openai: { baseUrl: place.upstream.url } },
      config: { log: { ...log } },
    });
    await troupe.server.services.loading;
    const response = await troupe.post("/gateway/v1/chat/completions", {
      ...{ model: "openai/gpt-5.4", store: true, messages: [{ role: "user", content: "hi" }] },
    });
    await response.text();
    place.write("troupe.yaml", "log: {content: true}\n");
    const id = await written(troupe, response);
    const { err } = await place.shell.run(["personas", "keep-test", id, "--data", place.folder.file("data")]);
    expect(err).toBe(`error: ${id} was a call of the model openai/gpt-5.4, and of no persona.\n`);
  });
});
