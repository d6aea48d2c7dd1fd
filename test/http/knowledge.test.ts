/** What personas know and their lorebooks add to calls, over HTTP. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { PersonaKnowledge } from "../../src/call/plan/knowledge.ts";
import { Registry } from "../../src/lib/process/metrics.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import type { Persona } from "../../src/personas/persona.ts";
import { chunk, completionOf, endingOf } from "../helpers/chat-upstream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { observe } from "../helpers/observed-troupe.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const returns = `# Returns

How things come back to us.

## Refunds

You are refunded within 14 days of the day on which the parcel is back.

## Exchanges

A kettle is exchanged for another kettle of the same price.
`;
const files = {
  "shop/docs/returns.md": returns,
  "shop/docs/care.txt": "Descale the boiler every month with citric acid.\n",
  "shop/clerk.yaml": `description: Sells.
model: openai/gpt
system: You sell.
knowledge: [docs/*.md, docs/*.txt]
`,
  "shop/brief.yaml": `description: Sells in short.
model: openai/gpt
system: You sell.
knowledge: { files: [docs/*.md], sections: 1 }
`,
  "shop/plain.yaml": "description: Knows nothing.\nmodel: openai/gpt\nsystem: You sell.\n",
  "tale/bard.yaml": `description: Sings.
model: openai/gpt
system: You sing.
variables: { user: { default: friend } }
lorebook:
  scan_depth: 2
  token_budget: 60
  recursive_scanning: true
  entries:
    - { keys: [tower], content: "The tower is Ash's, {{user}}." }
    - { keys: [Ash], case_sensitive: true, content: Ash is a dragon., order: 5 }
    - { constant: true, content: It is the year 812. }
    - { constant: true, content: Sing in verse., position: before_system }
    - { keys: [dragon], secondary_keys: [gold], content: Dragons like gold., depth: 2 }
    - { keys: [tower], content: Never., enabled: false }
`,
};
const folder = untilEnd(new TempFolder());
let answer: () => Response;

for (const path of ["shop/docs", "tale"]) mkdirSync(folder.file(path), { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(name), text);
const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({ personas: folder.path, providers: { openai: { baseUrl: url } } }),
);
beforeEach(() => {
  answer = () => jsonResponse(completionOf({ content: "x" }));
});

const user = (content: unknown) => ({ role: "user", content });
type Sent = { messages: { role: string; content: string }[]; metadata?: unknown };
const sent = () => upstream.last.json as Sent;
const ask = async (body: object) => {
  const response = await troupe.post("/v1/chat/completions", body);
  expect(response.status).toBe(200);
  return (await response.json()) as { metadata?: { sources?: string } };
};
const refunds = `<knowledge>
<section source="docs/returns.md" heading="Returns &gt; Refunds" lines="5-8">
## Refunds

You are refunded within 14 days of the day on which the parcel is back.
</section>
</knowledge>

`.replace("&gt;", ">");

describe("knowledge", () => {
  test("the best sections stand before the question, and are named in metadata", async () => {
    const asked = "When do I get my refund?";
    const { metadata } = await ask({ model: "shop/brief", messages: [user("Hello."), user(asked)] });
    expect(sent().messages).toEqual([
      { role: "system", content: "You sell." },
      { role: "user", content: "Hello." },
      { role: "user", content: refunds + asked },
    ]);
    expect(JSON.parse(metadata!.sources!)).toEqual([
      { file: "docs/returns.md", heading: "Returns > Refunds", lines: [5, 8], score: expect.any(Number) },
    ]);
  });

  test("in a stream its last chunk with choices names them", async () => {
    answer = () => sseResponse([chunk({ content: "In 14 " }), chunk({ content: "days." }), ...endingOf()]);
    const response = await troupe.post("/v1/chat/completions", {
      model: "shop/brief",
      messages: [user("refund?")],
      stream: true,
    });
    const text = await response.text();
    const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));
    expect(chunks.map(({ metadata }) => metadata !== undefined)).toEqual([false, false, true]);
    expect(JSON.parse(chunks.at(-1).metadata.sources)[0].file).toBe("docs/returns.md");
    expect(sent().messages.at(-1)!.content).toBe(`${refunds}refund?`);
  });

  test("a question that fits nothing is sent as it is", async () => {
    const answered = await ask({ model: "shop/clerk", messages: [user("Who are you?")] });
    expect(sent().messages.at(-1)).toEqual(user("Who are you?") as never);
    expect(answered).not.toHaveProperty("metadata");
    await ask({ model: "shop/plain", messages: [user("When do I get my refund?")] });
    expect(sent().messages.at(-1)!.content).toBe("When do I get my refund?");
  });

  test("parts of a message stay behind a part of their own; results of tools are no question", async () => {
    const parts = [
      { type: "text", text: "Is citric acid safe?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
    ];
    const call = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } };
    await ask({
      model: "shop/clerk",
      messages: [
        user(parts),
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "A refund and an exchange of a kettle." },
      ],
    });
    const [, question] = sent().messages;
    const [first, ...others] = question!.content as unknown as { text: string }[];
    expect(first!.text).toContain('<section source="docs/care.txt" lines="1-1">\nDescale the boiler');
    expect(first!.text).not.toContain("kettle");
    expect(others).toEqual(parts as never);
  });

  test("a file that changes is found as it is then; one that goes is not", async () => {
    writeFileSync(folder.file("shop/docs/new.md"), "# Vouchers\n\nA voucher is good for a year.\n");
    await troupe.server.services.rereadPersonas();
    await troupe.server.services.knowledge.update(troupe.server.services.personas.list());
    await ask({ model: "shop/brief", messages: [user("voucher")] });
    expect(sent().messages.at(-1)!.content).toContain("good for a year");
    writeFileSync(folder.file("shop/docs/new.md"), "# Vouchers\n\nA voucher is good for a month.\n");
    await troupe.server.services.knowledge.update(troupe.server.services.personas.list());
    await ask({ model: "shop/brief", messages: [user("voucher")] });
    expect(sent().messages.at(-1)!.content).toContain("good for a month");
  });

  test("links that lead out of the folder of personas are not followed", async () => {
    using outside = new TempFolder();
    writeFileSync(outside.file("secret.md"), "# Secret\n\nThe vaultword is plover.\n");
    symlinkSync(outside.file("secret.md"), folder.file("shop/docs/secret.md"));
    symlinkSync(outside.path, folder.file("shop/docs/away"));
    await troupe.server.services.knowledge.update(troupe.server.services.personas.list());
    await ask({ model: "shop/brief", messages: [user("plover vaultword")] });
    expect(sent().messages.at(-1)!.content).toBe("plover vaultword");
  });
});

test("while files change, calls hold the whole old state or the whole new one, streams too", async () => {
  using own = new TempFolder();
  // Time stands still, so that the watch of the folder reads nothing while the files are written: half of them new is a state as well.
  await using guarded = await Troupe.start({
    personas: own.path,
    providers: { openai: { baseUrl: upstream.url } },
    clock: new ManualClock(Date.now()),
  });
  mkdirSync(own.file("gang/docs"), { recursive: true });
  const states = ["amber", "cobalt", "amber", "cobalt"];
  const put = (state: string) => {
    for (let at = 0; at < 60; at += 1)
      writeFileSync(own.file(`gang/docs/${at}.md`), `# Part ${at}\n\nThe vault is ${state}.\n`);
  };
  put("amber");
  const persona = "description: Guards.\nmodel: openai/gpt\nsystem: You guard.\n";
  writeFileSync(
    own.file("gang/guard.yaml"),
    `${persona}knowledge: { files: [docs/*.md], sections: 50, tokens: 9000 }\n`,
  );
  const { knowledge, personas, rereadPersonas } = guarded.server.services;
  await rereadPersonas();
  await knowledge.update(personas.list());
  const before = upstream.requests.length;
  answer = () => sseResponse([chunk({ content: "x" }), ...endingOf()]);
  for (const state of states) {
    put(state);
    const changing = knowledge.update(personas.list());
    const calls = Array.from({ length: 12 }, () =>
      guarded
        .post("/v1/chat/completions", { model: "gang/guard", messages: [user("vault")], stream: true })
        .then((response) => response.text()),
    );
    for (const text of await Promise.all(calls)) expect(text).toEndWith("data: [DONE]\n\n");
    await changing;
  }
  const asked = upstream.requests.slice(before).map(({ json }) => (json as Sent).messages.at(-1)!.content);
  expect(asked).toHaveLength(48);
  for (const content of asked) {
    expect(content.match(/<section /g)).toHaveLength(50);
    expect(new Set(content.match(/amber|cobalt/g)).size).toBe(1);
  }
});

test("a pinned version knows the files that its own globs name", async () => {
  const persona = "description: Keeps.\nmodel: openai/gpt\nsystem: You keep.\n";
  writeFileSync(folder.file("shop/keeper.yaml"), `${persona}knowledge: [docs/*.txt]\n`);
  await troupe.server.services.rereadPersonas();
  const body = { model: "shop/keeper", messages: [user("boiler")] };
  const version = (await troupe.post("/v1/chat/completions", body)).headers.get("x-troupe-persona-version");
  expect(sent().messages.at(-1)!.content).toContain("citric acid");
  writeFileSync(folder.file("shop/keeper.yaml"), persona);
  await troupe.server.services.rereadPersonas();
  await ask(body);
  expect(sent().messages.at(-1)!.content).toBe("boiler");
  await ask({ ...body, model: `shop/keeper@${version}` });
  expect(sent().messages.at(-1)!.content).toContain("citric acid");
});

test("the log counts what was added, and metrics what was looked up; by their result", async () => {
  using own = new TempFolder();
  mkdirSync(own.file("shop/docs"), { recursive: true });
  writeFileSync(own.file("shop/clerk.yaml"), files["shop/clerk.yaml"]);
  writeFileSync(own.file("shop/docs/returns.md"), returns);
  const options = { personas: own.path, providers: { openai: { baseUrl: upstream.url } } };
  const question = (content: string) => ({ model: "shop/clerk", messages: [user(content)] });
  const calls = async (one: Troupe) => {
    for (const said of ["refunds and kettles", "Who are you?", "zebra"])
      expect((await one.post("/v1/chat/completions", question(said))).status).toBe(200);
  };
  const seen = await observe(options, calls);
  const requests = seen.lines.map((line) => JSON.parse(line)).filter(({ message }) => message === "request");
  const counted = requests.map(({ knowledge_sections, knowledge_tokens }) => [knowledge_sections, knowledge_tokens]);
  expect(counted.slice(0, 3)).toEqual([
    [2, 90],
    [undefined, undefined],
    [undefined, undefined],
  ]);
  expect(seen.metrics).toMatch(/^troupe_knowledge_lookups_total\{result="found"\} 1$/m);
  expect(seen.metrics).toMatch(/^troupe_knowledge_lookups_total\{result="nothing"\} 2$/m);
  expect(seen.metrics).toMatch(/^troupe_knowledge_sections 3$/m);
});

test("an index that fails is counted and logged once, and nothing is found", async () => {
  const metrics = new Registry();
  const warned: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void warned.push(message) };
  const broken = () => Promise.reject(new Error("broken"));
  const index = { sync: broken, search: broken, close: async () => {} };
  const knowledge = new PersonaKnowledge({ index, folder: "/personas", clock: systemClock, log, metrics });
  const persona = { id: "a/b", knowledge: { files: ["*.md"] } } as unknown as Persona;
  for (const text of ["one", "two"])
    expect(await knowledge.find(persona, [{ role: "user", content: text }])).toEqual([]);
  expect(metrics.snapshot()).toMatchObject([
    { name: "troupe_knowledge_lookups_total", series: [{ labels: ["failed"], value: 2 }] },
  ]);
  expect(warned).toHaveLength(1);
});

describe("a lorebook", () => {
  const bard = async (...messages: object[]) => {
    await ask({ model: "tale/bard", messages });
    return sent().messages;
  };

  test("adds what the latest messages mention, and what that mentions, in its order", async () => {
    expect(await bard(user("See the TOWER"))).toEqual([
      { role: "system", content: "Sing in verse.\n\nYou sing.\n\nIt is the year 812." },
      {
        role: "user",
        content: "<lorebook>\nAsh is a dragon.\n\nThe tower is Ash's, friend.\n</lorebook>\n\nSee the TOWER",
      },
    ]);
  });

  test("looks at so many messages, and puts an entry at its depth", async () => {
    const answered = { role: "assistant", content: "Yes." };
    expect((await bard(user("tower"), answered, user("And?"))).at(-1)).toEqual(user("And?") as never);
    const deep = await bard(user("dragon"), answered, user("gold and dragon"));
    expect(deep.slice(1)).toEqual([
      { role: "user", content: "<lorebook>\nDragons like gold.\n</lorebook>\n\ndragon" },
      answered,
      user("gold and dragon"),
    ] as never);
  });
});
