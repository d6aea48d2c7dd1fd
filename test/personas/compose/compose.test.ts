import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type ComposedRequest, compose } from "../../../src/personas/compose/compose.ts";
import { parseTemplate } from "../../../src/personas/compose/template.ts";
import type { Persona } from "../../../src/personas/persona.ts";
import type { ChatRequest, FunctionTool, Message } from "../../../src/protocols/chat/schema.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import { runs } from "../../helpers/long-form.ts";

const hello: Message = { role: "user", content: "Hello" };

function personaWith(parts: Partial<Persona> = {}): Persona {
  return {
    id: "troupe/guide",
    version: "0123456789ab",
    description: "A guide.",
    ownedBy: "troupe",
    tier: "free",
    created: 1,
    targets: ["builtin/echo"],
    system: parseTemplate("You are a guide."),
    variables: new Map(),
    examples: [],
    defaults: {},
    limits: {},
    options: {},
    stop: [],
    tools: [],
    ...parts,
  };
}

function requestWith(parts: Record<string, unknown> = {}): ChatRequest {
  return { model: "troupe/guide", messages: [hello], ...parts } as ChatRequest;
}

const composed = (persona: Partial<Persona>, request: Record<string, unknown> = {}) =>
  compose(personaWith(persona), requestWith(request)) as ComposedRequest & Record<string, unknown>;

function refusal(run: () => unknown): { status: number; code: string; param: string; message: string } {
  try {
    run();
  } catch (error) {
    if (error instanceof ApiError) {
      return { status: error.status, code: error.code, param: error.param, message: error.message };
    }
    throw error;
  }
  throw new Error("nothing was thrown");
}

const functionTool = (name: string): FunctionTool => ({ type: "function", function: { name } });

describe("messages", () => {
  const system: Message = { role: "system", content: "You are a guide." };
  const examples: Message[] = [
    { role: "user", content: "Ping?" },
    { role: "assistant", content: "Pong." },
  ];

  test("the system text, then the examples, then the caller's; without model", () => {
    expect(composed({ examples })).toEqual({ messages: [system, ...examples, hello] });
  });

  test("the caller's opening system messages come right after the persona's, later ones stay where they are", () => {
    const first: Message = { role: "system", content: "Be brief." };
    const second: Message = { role: "developer", content: "Use metric units." };
    const late: Message = { role: "system", content: "The user is back." };
    const { messages } = composed({ examples }, { messages: [first, second, hello, late, hello] });
    expect(messages).toEqual([system, first, second, ...examples, hello, late, hello]);
  });

  test("a request of nothing but system messages keeps them all", () => {
    const only: Message = { role: "developer", content: "Greet." };
    expect(composed({ examples }, { messages: [only] }).messages).toEqual([system, only, ...examples]);
  });

  test("the system text is there on tool turns too", () => {
    const call: Message = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
    };
    const result: Message = { role: "tool", tool_call_id: "c1", content: "42" };
    expect(composed({}, { messages: [hello, call, result] }).messages).toEqual([system, hello, call, result]);
  });

  test("what the persona and the caller handed in is not touched", () => {
    const persona = personaWith({ examples, metadata: { a: "1" }, tools: [functionTool("f")], options: { top_k: 3 } });
    const request = requestWith({ extra_body: { temperature: 0.5 }, metadata: { b: "2" }, tools: [functionTool("g")] });
    const before = JSON.stringify([persona, request]);
    compose(persona, request);
    expect(JSON.stringify([persona, request])).toBe(before);
  });

  test("unknown fields of the caller go along", () => {
    expect(composed({}, { top_k: 40, n: 2 })).toMatchObject({ top_k: 40, n: 2 });
  });
});

describe("variables", () => {
  const text = "Teach {{subject}} to {{who}}.";
  const variables: Persona["variables"] = new Map([
    ["subject", { required: true, default: "", maxLength: 5 }],
    ["who", { required: false, default: "anyone", maxLength: 2000, enum: ["anyone", "children", "{{subject}}"] }],
  ]);
  const teacher = { system: parseTemplate(text), variables };
  const systemOf = (request: Record<string, unknown>) => composed(teacher, request).messages[0]?.content;

  test("values go in, defaults stand in for absent and null ones", () => {
    expect(systemOf({ variables: { subject: "maths", who: "children" } })).toBe("Teach maths to children.");
    expect(systemOf({ variables: { subject: "maths", who: null } })).toBe("Teach maths to anyone.");
  });

  test("they may stand in extra_body; the top level wins; neither travels on", () => {
    const both = { variables: { subject: "top" }, extra_body: { variables: { subject: "body" }, keep: 1 } };
    expect(systemOf({ extra_body: { variables: { subject: "body" } } })).toBe("Teach body to anyone.");
    const result = composed(teacher, both);
    expect(result.messages[0]?.content).toBe("Teach top to anyone.");
    expect(result["variables"]).toBeUndefined();
    expect(result["extra_body"]).toEqual({ keep: 1 });
  });

  test("a value is inserted as it is: braces and dollars in it mean nothing", () => {
    expect(systemOf({ variables: { subject: "$&{{}", who: "{{subject}}" } })).toBe("Teach $&{{} to {{subject}}.");
  });

  test("characters are counted, not code units", () => {
    expect(systemOf({ variables: { subject: "👩👩👩👩👩" } })).toBe("Teach 👩👩👩👩👩 to anyone.");
  });

  test.each([
    ["no object", "all", "invalid_value", "variables", "variables must be an object of strings."],
    ["a list", ["maths"], "invalid_value", "variables", "variables must be an object of strings."],
    ["a missing one", {}, "missing_field", "variables.subject", "Missing required field: variables.subject."],
    ["a wrong type", { subject: 5 }, "invalid_value", "variables.subject", "variables.subject must be a string."],
    [
      "too long",
      { subject: "biology" },
      "invalid_value",
      "variables.subject",
      "variables.subject must have at most 5 characters.",
    ],
    [
      "none of the allowed",
      { subject: "art", who: "dogs" },
      "invalid_value",
      "variables.who",
      'variables.who must be one of "anyone", "children", "{{subject}}".',
    ],
    [
      "undeclared",
      { subject: "art", tone: "dry" },
      "invalid_value",
      "variables.tone",
      "variables.tone is not a variable of this persona; it takes subject, who.",
    ],
    [
      "undeclared, named like a part of every object",
      { subject: "art", constructor: "x" },
      "invalid_value",
      "variables.constructor",
      "variables.constructor is not a variable of this persona; it takes subject, who.",
    ],
  ])("%s is refused", (_, given, code, param, message) => {
    const found = refusal(() => composed(teacher, { variables: given }));
    expect(found).toEqual({ status: 400, code, param, message });
  });

  test("a persona without variables says so", () => {
    expect(refusal(() => composed({}, { variables: { x: "1" } })).message).toBe(
      "variables.x is not a variable of this persona; it takes none.",
    );
    expect(composed({}, { variables: {} }).messages).toHaveLength(2);
  });

  test("a declared variable named like a part of every object has its default", () => {
    const odd = {
      system: parseTemplate("A {{constructor}}."),
      variables: new Map([["constructor", { required: false, default: "b", maxLength: 9 }]]),
    };
    expect(composed(odd, { variables: {} }).messages[0]?.content).toBe("A b.");
  });
});

describe("sampling", () => {
  test.each<[string, Partial<Persona>, Record<string, unknown>, Record<string, unknown>]>([
    [
      "defaults fill what is absent",
      { defaults: { temperature: 0.2, top_p: 0.9 } },
      { top_p: 0.5 },
      { temperature: 0.2, top_p: 0.5 },
    ],
    ["a default of 0 is a default", { defaults: { temperature: 0 } }, {}, { temperature: 0 }],
    ["the caller's 0 is a value", { defaults: { temperature: 1 } }, { temperature: 0 }, { temperature: 0 }],
    ["max_tokens has a default", { defaults: { max_tokens: 100 } }, {}, { max_tokens: 100 }],
    [
      "not beside the newer name",
      { defaults: { max_tokens: 100 } },
      { max_completion_tokens: 7 },
      { max_completion_tokens: 7 },
    ],
    ["nor the other way round", { defaults: { max_completion_tokens: 100 } }, { max_tokens: 7 }, { max_tokens: 7 }],
    ["limits cap", { limits: { temperature: 1.2 } }, { temperature: 2 }, { temperature: 1.2 }],
    ["limits leave what is below", { limits: { temperature: 1.2 } }, { temperature: 0.3 }, { temperature: 0.3 }],
    [
      "one limit caps both names of max_tokens",
      { limits: { max_tokens: 50 } },
      { max_tokens: 60, max_completion_tokens: 70 },
      { max_tokens: 50, max_completion_tokens: 50 },
    ],
    ["by whichever name", { limits: { max_completion_tokens: 50 } }, { max_tokens: 60 }, { max_tokens: 50 }],
    ["a token limit is sent by itself", { limits: { max_tokens: 50 } }, {}, { max_tokens: 50 }],
    [
      "a default below the limit is kept",
      { defaults: { max_tokens: 20 }, limits: { max_completion_tokens: 50 } },
      {},
      { max_tokens: 20 },
    ],
    [
      "a limit below the public default is sent by itself",
      { limits: { temperature: 0.5, top_p: 0.8 } },
      {},
      { temperature: 0.5, top_p: 0.8 },
    ],
    [
      "one at or above it is not",
      { limits: { temperature: 1, top_p: 1, presence_penalty: 0, verbosity: "medium", reasoning_effort: "medium" } },
      {},
      {},
    ],
    [
      "efforts have an order",
      { limits: { reasoning_effort: "low" } },
      { reasoning_effort: "xhigh" },
      { reasoning_effort: "low" },
    ],
    [
      "and a lowest",
      { limits: { reasoning_effort: "low" } },
      { reasoning_effort: "none" },
      { reasoning_effort: "none" },
    ],
    [
      "an effort in an upstream's own word is above every limit",
      { limits: { reasoning_effort: "max" } },
      { reasoning_effort: "default" },
      { reasoning_effort: "max" },
    ],
    [
      "and goes as it is where there is none",
      { limits: { temperature: 2 } },
      { reasoning_effort: "default" },
      { reasoning_effort: "default" },
    ],
    ["verbosity too", { limits: { verbosity: "low" } }, {}, { verbosity: "low" }],
    ["penalties too", { limits: { frequency_penalty: -1 } }, { frequency_penalty: 0.5 }, { frequency_penalty: -1 }],
    ["a seed is preset", { defaults: { seed: 7 } }, {}, { seed: 7 }],
  ])("%s", (_, persona, request, expected) => {
    const { messages: _messages, ...rest } = composed(persona, request);
    expect(rest).toEqual(expected as typeof rest);
  });

  test("a limit holds for what a client left inside extra_body", () => {
    const result = composed(
      { limits: { max_tokens: 50 } },
      { extra_body: { max_completion_tokens: 9999, other: true } },
    );
    expect(result).toMatchObject({ max_completion_tokens: 50, extra_body: { other: true } });
  });

  test("a field of wrong type inside extra_body is refused there", () => {
    const found = refusal(() => composed({}, { extra_body: { temperature: "hot" } }));
    expect(found).toMatchObject({ status: 400, code: "invalid_value", param: "extra_body.temperature" });
  });

  test("at the top level and inside extra_body, the top level wins", () => {
    expect(composed({}, { temperature: 0.1, extra_body: { temperature: 0.9 } })).toMatchObject({
      temperature: 0.1,
      extra_body: {},
    });
  });
});

describe("stop", () => {
  test.each<[string, string[], unknown, unknown]>([
    ["neither", [], undefined, undefined],
    ["the persona's", ["END"], undefined, ["END"]],
    ["the caller's text", [], "X", ["X"]],
    ["both, each once, the persona's first", ["END", "X"], ["X", "Y"], ["END", "X", "Y"]],
    ["at most four", ["A", "B"], ["C", "D", "E"], ["A", "B", "C", "D"]],
  ])("%s", (_, own, asked, expected) => {
    expect(composed({ stop: own }, asked === undefined ? {} : { stop: asked }).stop as unknown).toEqual(expected);
  });
});

describe("tools", () => {
  test("the persona's come first, the caller's after them", () => {
    const names = composed({ tools: [functionTool("own")] }, { tools: [functionTool("theirs")] }).tools;
    expect(names).toEqual([functionTool("own"), functionTool("theirs")]);
    expect(composed({}).tools).toBeUndefined();
  });

  test.each([
    ["tools[1].function.name", { tools: [functionTool("other"), functionTool("own")] }],
    ["tools[0].custom.name", { tools: [{ type: "custom", custom: { name: "own" } }] }],
    ["functions[0].name", { functions: [{ name: "own" }] }],
  ])("a name that the persona has already is refused at %s", (param, request) => {
    expect(refusal(() => composed({ tools: [functionTool("own")] }, request))).toEqual({
      status: 400,
      code: "invalid_value",
      param,
      message: `${param}: this persona has a tool 'own' already.`,
    });
  });
});

describe("what stands in for the caller's", () => {
  test("response_format", () => {
    const own = { responseFormat: { type: "json_object" } as const };
    expect(composed(own).response_format).toEqual({ type: "json_object" });
    expect(composed(own, { response_format: { type: "text" } }).response_format).toEqual({ type: "text" });
  });

  test("store", () => {
    expect(composed({ store: true }).store).toBe(true);
    expect(composed({ store: true }, { store: false }).store).toBe(false);
    expect(composed({}).store).toBeUndefined();
  });

  test("metadata, entry by entry", () => {
    const own = { metadata: { team: "a", kind: "x" } };
    expect(composed(own).metadata).toEqual({ team: "a", kind: "x" });
    expect(composed(own, { metadata: { kind: "y", run: "1" } }).metadata).toEqual({ team: "a", kind: "y", run: "1" });
  });

  test("more metadata than the public format takes is refused", () => {
    const many = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`k${at}`, "v"]));
    expect(composed({}, { metadata: many }).metadata).toEqual(many);
    expect(refusal(() => composed({ metadata: { team: "a" } }, { metadata: many }))).toEqual({
      status: 400,
      code: "invalid_value",
      param: "metadata",
      message: "metadata may have at most 15 entries beside those of this persona.",
    });
  });

  const options = { thinking_budget: 100, include_thoughts: true };
  test.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ["options become fields of the request", {}, { thinking_budget: 100, include_thoughts: true }],
    ["but for what the caller gave", { thinking_budget: 5 }, { thinking_budget: 5, include_thoughts: true }],
    [
      "in extra_body",
      { extra_body: { thinking_budget: 5 } },
      { include_thoughts: true, extra_body: { thinking_budget: 5 } },
    ],
    [
      "under a namespace",
      { google: { thinking_budget: 5 } },
      { include_thoughts: true, google: { thinking_budget: 5 } },
    ],
    [
      "or under a namespace in extra_body",
      { extra_body: { google: { include_thoughts: false } } },
      { thinking_budget: 100, extra_body: { google: { include_thoughts: false } } },
    ],
    [
      "an equal name inside a standard field is no option",
      { metadata: { thinking_budget: "no" } },
      { thinking_budget: 100, include_thoughts: true, metadata: { thinking_budget: "no" } },
    ],
  ])("%s", (_, request, expected) => {
    const { messages: _messages, ...rest } = composed({ options }, request);
    expect(rest).toEqual(expected as typeof rest);
  });
});

describe("for any persona and request", () => {
  const message = fc.oneof(
    fc.record({ role: fc.constantFrom("system", "developer", "user"), content: fc.string() }),
    fc.record({ role: fc.constant("assistant"), content: fc.string() }),
    fc.record({ role: fc.constant("tool"), tool_call_id: fc.string({ minLength: 1 }), content: fc.string() }),
  ) as fc.Arbitrary<Message>;
  const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
  const dials = {
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    top_p: fc.double({ min: 0, max: 1, noNaN: true }),
    presence_penalty: fc.double({ min: -2, max: 2, noNaN: true }),
    frequency_penalty: fc.double({ min: -2, max: 2, noNaN: true }),
    reasoning_effort: fc.constantFrom(...efforts),
    verbosity: fc.constantFrom("low" as const, "medium" as const, "high" as const),
  };
  const tokens = fc.integer({ min: 1, max: 1_000_000 });
  const oneTokenDial = fc.oneof(
    fc.constant({}),
    fc.record({ max_tokens: tokens }),
    fc.record({ max_completion_tokens: tokens }),
  );
  const sampling = fc
    .tuple(fc.record(dials, { requiredKeys: [] }), oneTokenDial)
    .map(([some, token]) => ({ ...some, ...token }));
  const asked = fc.record({ ...dials, max_tokens: tokens, max_completion_tokens: tokens }, { requiredKeys: [] });
  const inExtraBody = fc.record({ max_tokens: tokens, temperature: dials.temperature }, { requiredKeys: [] });
  const height = (value: string | number) => (typeof value === "number" ? value : efforts.indexOf(value as "low"));

  test("the system text is first, the caller's messages keep their order, limits are never exceeded", () => {
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 12 }),
        fc.array(message, { maxLength: 4 }),
        fc.string(),
        sampling,
        sampling,
        asked,
        inExtraBody,
        (messages, examples, topic, defaults, limits, fields, extra_body) => {
          const persona = personaWith({
            system: parseTemplate("Speak of {{topic}}, please."),
            variables: new Map([["topic", { required: false, default: "-", maxLength: 2000 }]]),
            examples,
            defaults,
            limits,
          });
          const result = compose(persona, requestWith({ messages, ...fields, extra_body, variables: { topic } }));
          expect(result.messages[0]).toEqual({ role: "system", content: `Speak of ${topic}, please.` });
          expect(result.messages.filter((one) => messages.includes(one))).toEqual(messages);
          expect(result.messages.filter((one) => examples.includes(one))).toEqual(examples);
          expect(result.messages).toHaveLength(1 + messages.length + examples.length);
          const sent = result as Record<string, unknown> as Record<string, string | number | undefined>;
          const leftInside = (result as { extra_body?: Record<string, string | number> }).extra_body ?? {};
          for (const [name, limit] of Object.entries(limits)) {
            const isTokens = name.startsWith("max_");
            for (const place of [sent, leftInside]) {
              for (const spelling of isTokens ? ["max_tokens", "max_completion_tokens"] : [name]) {
                const value = place[spelling];
                if (value !== undefined) expect(height(value)).toBeLessThanOrEqual(height(limit));
              }
            }
            if (isTokens) expect(sent["max_tokens"] ?? sent["max_completion_tokens"]).toBeDefined();
          }
        },
      ),
      { numRuns: runs(500) },
    );
  });
});
