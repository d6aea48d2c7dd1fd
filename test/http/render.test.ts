/** What is rendered of a persona's call is what is sent, byte for byte, and each part of it has its origin. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { TCPSocketListener } from "bun";
import fc from "fast-check";
import { findAdditions } from "../../src/call/plan/knowledge.ts";
import { type RenderedCall, renderCall, variantOf } from "../../src/http/render.ts";
import { wireBytes } from "../../src/lib/http/client.ts";
import type { JsonObject } from "../../src/lib/json/json.ts";
import { builtinPersonas } from "../../src/personas/builtin.ts";
import { parseTemplate } from "../../src/personas/compose/template.ts";
import { loadFolder } from "../../src/personas/file/folder.ts";
import { personaTextOf, placesOf } from "../../src/personas/file/source.ts";
import type { Persona } from "../../src/personas/persona.ts";
import type { ChatRequest } from "../../src/protocols/chat/schema.ts";
import { providers } from "../../src/providers/registry.ts";
import { fixtureFamilies } from "../helpers/fixtures.ts";
import { runs, some } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe, testConfig } from "../helpers/troupe.ts";

const families = fixtureFamilies();

/** An upstream that keeps the bytes of each request, and refuses it. */
class ByteUpstream implements Disposable {
  readonly requests: string[] = [];
  readonly #server: TCPSocketListener<{ text: string }>;

  constructor() {
    const { requests } = this;
    this.#server = Bun.listen<{ text: string }>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open(socket) {
          socket.data = { text: "" };
        },
        data(socket, bytes) {
          socket.data.text += bytes.toString("latin1");
          const head = socket.data.text.indexOf("\r\n\r\n") + 4;
          const length = Number(/^content-length: (\d+)\r$/m.exec(socket.data.text)?.[1]);
          if (head < 4 || socket.data.text.length < head + length) return;
          requests.push(Buffer.from(socket.data.text, "latin1").toString());
          socket.data.text = "";
          socket.write("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}");
        },
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  [Symbol.dispose](): void {
    this.#server.stop(true);
  }
}

const upstream = untilEnd(new ByteUpstream());
const names = [...new Set(families.map(({ provider }) => provider.name))];
const options = {
  providers: Object.fromEntries(
    names.map((name) => [name, { baseUrl: `${upstream.url}/${name}`, headers: { "x-team": "secret-team" } }]),
  ),
};
const { providers: configured } = testConfig("none", options);

const troupe = untilEnd(await Troupe.start(options));

const render = (persona: Persona, request: JsonObject, places?: Parameters<typeof renderCall>[1]["places"]) => {
  const { media, clock } = troupe.server.services;
  const tools = { media, clock, configured, providers };
  return renderCall(tools, { persona, request, places }, new AbortController().signal);
};

/** Calls the persona, and compares what arrives with what is rendered. */
async function compare(persona: Persona, request: JsonObject): Promise<RenderedCall> {
  const { personas } = troupe.server.services;
  personas.replace([...personas.list().filter(({ id }) => id !== persona.id), persona]);
  const rendered = await render(persona, request);
  const before = upstream.requests.length;
  const answer = await troupe.post("/v1/chat/completions", { ...request, model: persona.id });
  await answer.text();
  const sent = upstream.requests.slice(before);
  const shown = rendered.models.flatMap((model) =>
    model.request === null ? [] : wireBytes(model.request).toString().replaceAll("***", "hidden"),
  );
  const masked = sent.map((text) => text.replaceAll(/key-of-[a-z-]+/g, "hidden").replaceAll("secret-team", "hidden"));
  if (answer.status >= 500) {
    expect(sent).toHaveLength(1);
    expect(masked).toEqual(shown);
  } else {
    // It was refused before it was sent, for the reason that is rendered.
    const { error } = (await troupe
      .post("/v1/chat/completions", { ...request, model: persona.id })
      .then((one) => one.json())) as { error: JsonObject };
    expect(rendered.models[0]?.error).toMatchObject({ code: error["code"], param: error["param"] });
  }
  return rendered;
}

/** Each value has one origin at least, and segments join to their text. */
function checkParts({ models, parts, composed }: RenderedCall): void {
  for (const { segments, path } of parts) {
    const text = segments?.map((segment) => segment.text).join("");
    const said = composed.messages[path[1] as number]?.content;
    if (text !== undefined && path.length === 2) expect(said).toBe(text);
  }
  for (const model of models) {
    if (model.request === null) continue;
    const body = JSON.parse(model.request.body);
    expect(rejoined(model.parts)).toEqual(body);
    for (const { origins, segments, value } of model.parts) {
      expect(origins.length).toBeGreaterThan(0);
      if (segments) expect(segments.map(({ text }) => text).join("")).toBe(value as string);
    }
  }
}

function rejoined(parts: RenderedCall["models"][number]["parts"]): unknown {
  const root: Record<string, unknown> = {};
  for (const { path, value } of parts) {
    const keys = [...path.matchAll(/\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g)].map(([, index, quoted, plain]) =>
      index !== undefined ? Number(index) : quoted !== undefined ? JSON.parse(`"${quoted}"`) : plain!,
    ) as (string | number)[];
    let at = root as Record<string | number, unknown>;
    keys.forEach((key, depth) => {
      if (depth === keys.length - 1) at[key] = value;
      else {
        at[key] ??= typeof keys[depth + 1] === "number" ? [] : {};
        at = at[key] as Record<string | number, unknown>;
      }
    });
  }
  return root;
}

const required = (persona: Persona) =>
  Object.fromEntries([...persona.variables].filter(([, { required }]) => required).map(([name]) => [name, "x"]));

describe.each(families.map((family) => [family.folder, family] as const))("%s", (_, { provider, extras }) => {
  const target = `${provider.name}/${provider.models[0] ?? "any-model"}`;

  test("each shipped persona, streaming or not, is sent as it is rendered", async () => {
    for (const shipped of some(builtinPersonas(), 4)) {
      for (const stream of [false, true]) {
        const persona = { ...shipped, targets: [target], options: { ...shipped.options, ...extras } };
        const request = {
          messages: [{ role: "user", content: "Größe? 学" }],
          variables: required(shipped),
          temperature: 0.25,
          user: "u-1",
          ...(stream && { stream }),
        };
        checkParts(await compare(persona, request));
      }
    }
  });

  test("any persona and request are", async () => {
    const word = fc.string({ minLength: 1, maxLength: 12 }).map((text) => `w${text}`);
    const tool = (name: string) => ({
      type: "function" as const,
      function: {
        name,
        description: `Does ${name}.`,
        parameters: { type: "object", properties: { a: { type: "string" } } },
      },
    });
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          system: fc.constantFrom("Be {{who}}.", "\\{{x}} {{who}}{{who}} end", "Plain."),
          value: word,
          given: fc.boolean(),
          examples: fc.boolean(),
          tools: fc.boolean(),
          callersTools: fc.boolean(),
          temperature: fc.option(fc.constantFrom(0, 0.5, 1, 2), { nil: undefined }),
          maxTokens: fc.option(fc.integer({ min: 1, max: 9000 }), { nil: undefined }),
          limit: fc.option(fc.integer({ min: 1, max: 4000 }), { nil: undefined }),
          stop: fc.boolean(),
          stream: fc.boolean(),
          inBody: fc.boolean(),
          said: word,
          late: fc.boolean(),
        }),
        async (drawn) => {
          const persona: Persona = {
            ...builtinPersonas()[0]!,
            id: "test/drawn",
            targets: [target],
            system: parseTemplate(drawn.system),
            variables: new Map([["who", { required: false, default: "anyone", maxLength: 100 }]]),
            examples: drawn.examples
              ? [
                  { role: "user", content: "Ping?" },
                  { role: "assistant", content: "Pong." },
                ]
              : [],
            defaults: { temperature: 0.75 },
            limits: drawn.limit === undefined ? {} : { max_tokens: drawn.limit },
            options: extras,
            stop: drawn.stop ? ["END"] : [],
            tools: drawn.tools ? [tool("look")] : [],
          };
          const own = {
            ...(drawn.temperature !== undefined && { temperature: drawn.temperature }),
            ...(drawn.given && { variables: { who: drawn.value } }),
          };
          const request = {
            messages: [
              { role: "system", content: `Also ${drawn.value}.` },
              { role: "user", content: drawn.said },
              { role: "assistant", content: "Yes?" },
              { role: "user", content: [{ type: "text", text: `${drawn.said}!` }] },
            ],
            ...(drawn.maxTokens !== undefined && { max_tokens: drawn.maxTokens }),
            ...(drawn.callersTools && { tools: [tool("find")] }),
            ...(drawn.stream && { stream: true }),
            ...(drawn.inBody ? { extra_body: own } : own),
          };
          checkParts(await compare(persona, request));
        },
      ),
      { numRuns: runs(12) },
    );
  });
});

describe("origins", () => {
  const text = [
    "description: d",
    "model: [openai/gpt-5.4-mini, builtin/echo]",
    "system: |",
    "  You help {{who}}. {{> tone}} Answer in {{language}}!",
    "variables:",
    "  who: { default: everyone }",
    "  language: { default: English }",
    "defaults: { temperature: 0.75, top_p: 0.5 }",
    "limits: { max_tokens: 100, temperature: 1 }",
    "options: { service_tier: flex }",
    "stop: END",
    "",
  ].join("\n");

  test("name file, line and column, variable, caller, default, limit and option", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    const file = folder.file("acme/help.yaml");
    const tone = folder.file("acme/tone.md");
    writeFileSync(file, text);
    writeFileSync(tone, "Be kind.\nUse {{language}} names.\n");
    const { personas, errors } = await loadFolder(folder.path);
    expect(errors).toEqual([]);
    const [persona] = personas;
    const source = await personaTextOf(persona!, folder.path);
    expect(source).toEqual({ file, text });
    const places = await placesOf(persona!, source!, folder.path);
    const request = {
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 500,
      variables: { language: "French" },
    };
    const { models } = await render(persona!, request, places);
    const [first, second] = models;
    expect([first!.use, second!.use, second!.request]).toEqual(["first", "fallback", null]);
    const at = (line: number, column: number) => ({ file, line, column });
    const originsAt = Object.fromEntries(first!.parts.map(({ path, origins }) => [path, origins]));
    expect(originsAt["model"]).toEqual([{ kind: "model", field: "model[0]", ...at(2, 9) }]);
    expect(originsAt["temperature"]).toEqual([{ kind: "default", field: "defaults.temperature", ...at(8, 26) }]);
    expect(originsAt["max_completion_tokens"]).toEqual([
      { kind: "limit", field: "limits.max_tokens", capped: 500, ...at(9, 23) },
    ]);
    expect(originsAt["service_tier"]).toEqual([{ kind: "option", field: "options.service_tier", ...at(10, 26) }]);
    expect(originsAt["stop"]).toEqual([{ kind: "persona", field: "stop[0]", ...at(11, 7) }]);
    expect(originsAt["messages[1]"]).toEqual([{ kind: "caller", field: "messages[0]" }]);
    const system = first!.parts.find(({ segments }) => segments !== undefined)!;
    expect(system.path).toBe("messages[0].content");
    const own = (line: number, column: number) => ({ kind: "persona", field: "system", ...at(line, column) });
    const shared = (line: number, column: number) => ({ ...own(line, column), file: tone });
    const language = { kind: "variable", field: "variables.language", source: "caller" };
    expect(system.segments as unknown).toEqual([
      { text: "You help ", origin: own(3, 9) },
      {
        text: "everyone",
        origin: { kind: "variable", field: "variables.who.default", source: "default", ...at(6, 19) },
      },
      { text: ". ", origin: own(4, 19) },
      { text: "Be kind.\nUse ", origin: shared(1, 1) },
      { text: "French", origin: language },
      { text: " names.", origin: shared(2, 17) },
      { text: " Answer in ", origin: own(4, 31) },
      { text: "French", origin: language },
      { text: "!", origin: own(4, 54) },
    ]);
    // A partial that changed since says nothing about the persona that is served.
    writeFileSync(tone, "Be rude.");
    expect(await placesOf(persona!, source!, folder.path)).toBeUndefined();
  });

  test("of a call whose tools choose its road are those of that road", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    const lines = [
      "description: d",
      "model: openai/gpt-5.6-sol",
      "system: Help.",
      "tools: [{ type: function, function: { name: look, description: Looks., parameters: { type: object, properties: {} } } }]",
      "defaults: { reasoning_effort: high }",
      "",
    ];
    writeFileSync(folder.file("acme/road.yaml"), lines.join("\n"));
    const [persona] = (await loadFolder(folder.path)).personas;
    const { models } = await render(persona!, { messages: [{ role: "user", content: "Hi" }] });
    const [{ request, parts }] = models as [RenderedCall["models"][number]];
    expect(request!.url).toEndWith("/responses");
    const kinds = Object.fromEntries(parts.map(({ path, origins }) => [path, origins.map(({ kind }) => kind)]));
    expect(kinds).toMatchObject({
      model: ["model"],
      "input[0]": ["persona"],
      "input[1]": ["caller"],
      reasoning: ["default"],
      tools: ["persona"],
      store: ["provider"],
    });
  });

  test("of sections, lorebook entries and a variant's fields are named, and what is sent is the same", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("acme/docs"), { recursive: true });
    const file = folder.file("acme/clerk.yaml");
    writeFileSync(
      file,
      [
        "description: d",
        "model: openai/gpt-5.4-mini",
        "system: Serve {{who}}.",
        "variables: { who: { default: all } }",
        "knowledge: [docs/*.md]",
        "lorebook:",
        "  - { keys: [refund], content: 'Refunds please {{who}}.' }",
        "  - { name: tone, constant: true, position: before_system, content: Be kind. }",
        "variants:",
        "  - { name: now, weight: 0 }",
        "  - { name: next, weight: 1, system: 'Help {{who}}.', defaults: { temperature: 0.5 } }",
        "",
      ].join("\n"),
    );
    writeFileSync(folder.file("acme/docs/refunds.md"), "# Refunds\n\nA refund takes 14 days.\n");
    await using server = await Troupe.start({ ...options, personas: folder.path });
    const { services } = server.server;
    await services.loading;
    const found = services.personas.find("acme/clerk")!;
    const { persona, variant } = variantOf(found, undefined);
    expect(variant).toBe("next");
    const source = await personaTextOf(found, folder.path);
    const places = await placesOf(found, source!, folder.path, variant);
    const { media, clock, knowledge } = services;
    const additions = (of: Persona, asked: ChatRequest) =>
      findAdditions(knowledge, of, asked, { parsed: { ...asked } });
    const tools = { media, clock, additions, configured, providers };
    const request = { messages: [{ role: "user", content: "How long does a refund take?" }] };
    const { models, composed, parts } = await renderCall(
      tools,
      { persona, request, places },
      new AbortController().signal,
    );
    const before = upstream.requests.length;
    await (await server.post("/v1/chat/completions", { ...request, model: "acme/clerk" })).text();
    const sent = upstream.requests.slice(before).map((text) => text.slice(text.indexOf("\r\n\r\n") + 4));
    expect(sent).toEqual([models[0]!.request!.body]);
    checkParts({ persona: persona.id, models, composed, parts });
    const segmentsAt = (path: string) => models[0]!.parts.find((part) => part.path === path)?.segments as unknown[];
    expect(segmentsAt("messages[0].content")).toEqual([
      { text: "Be kind.\n\n", origin: { kind: "lorebook", field: "lorebook", file, line: 7, column: 3 } },
      { text: "Help ", origin: { kind: "persona", field: "system", file, line: 11, column: 38 } },
      {
        text: "all",
        origin: { kind: "variable", field: "variables.who.default", source: "default", file, line: 4, column: 30 },
      },
      { text: ".", origin: { kind: "persona", field: "system", file, line: 11, column: 51 } },
    ]);
    const temperature = models[0]!.parts.find(({ path }) => path === "temperature");
    expect(temperature?.origins).toEqual([
      { kind: "default", field: "defaults.temperature", file, line: 11, column: 80 },
    ]);
    expect(() => variantOf(found, "other")).toThrow("it has now, next");
  });

  test("a provider that is not set up is rendered as it would be, and marked", async () => {
    const [persona] = builtinPersonas();
    const { media, clock } = troupe.server.services;
    const tools = { media, clock, configured: [], providers };
    const question = { persona: persona!, request: { messages: [{ role: "user", content: "Hi" }] } };
    const { models } = await renderCall(tools, question, new AbortController().signal);
    expect(models.map(({ model }) => model)).toEqual([...persona!.targets]);
    expect(models.at(-1)).toMatchObject({ use: "first", request: null });
    const openai = models.find(({ model }) => model.startsWith("openai/"))!;
    expect(openai.use).toBe("unavailable");
    expect(openai.request?.headers["authorization"]).toBe("Bearer ***");
  });

  test("personas of the executable have places too", async () => {
    for (const persona of builtinPersonas()) {
      const source = await personaTextOf(persona, "/nowhere");
      const places = await placesOf(persona, source!, "/nowhere");
      expect([persona.id, places!.locate(["system"]).line > 1]).toEqual([persona.id, true]);
    }
  });
});
