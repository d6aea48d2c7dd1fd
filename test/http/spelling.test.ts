/** Numbers beyond 2^53, `1.0` and the like arrive at an upstream of the chat format as the caller wrote them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { SurfaceName } from "../../src/config/config.ts";
import { runs } from "../helpers/long-form.ts";
import { type Lossless, LosslessNumber, parseLossless } from "../helpers/lossless-json.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";

const { troupe, upstream } = await served(
  () => jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }] }),
  (url) => ({
    providers: {
      openai: { baseUrl: url },
      plain: { baseUrl: url, dialect: "mistral" },
    },
  }),
);
troupe.setTargets(persona, ["openai/x"]);

const pathOf = (surface: SurfaceName) => `${surface === "gateway" ? "/gateway" : ""}/v1/chat/completions`;

/** @returns what reached the upstream */
async function sent(surface: SurfaceName, body: string): Promise<Record<string, Lossless>> {
  const response = await troupe.post(pathOf(surface), body);
  const answer = await response.text();
  if (response.status !== 200) throw new Error(answer);
  return parseLossless(upstream.last.text) as Record<string, Lossless>;
}

const big = "9007199254740993";
const user = `{"role":"user","content":"hi","weight":1.0}`;
const surfaces: [SurfaceName, string][] = [
  ["gateway", "openai/x"],
  ["orchestrator", persona],
];

test.each(
  surfaces.flatMap(
    ([surface, model]) =>
      [
        [surface, "a seed", `"model":"${model}","seed":${big}`, { seed: big }],
        [surface, "a null at the top", `"model":"${model}","user":null,"seed":${big}`, { seed: big }],
        [surface, "a standard field in extra_body", `"model":"${model}","extra_body":{"seed":${big}}`, { seed: big }],
        [
          surface,
          "an own field in extra_body",
          `"model":"${model}","extra_body":{"top_k":4.0},"n":1`,
          { top_k: "4.0" },
        ],
        [
          surface,
          "an option of another family",
          `"model":"${model}","google":{"thinking_budget":0},"top_k":4.0`,
          { top_k: "4.0" },
        ],
        [surface, "a limit by its older name", `"model":"${model}","max_tokens":${big},"p":1e0`, { p: "1e0" }],
        [surface, "a name with escapes", String.raw`"model":"${model}","s\u0065ed":${big}`, { seed: big }],
        [surface, "nested values", `"model":"${model}","x":{"y":[1.0,${big}]}`, { x: { y: ["1.0", big] } }],
        [surface, "a bias", `"model":"${model}","logit_bias":{"50256":-100.0}`, { logit_bias: { 50256: "-100.0" } }],
        [
          surface,
          "a tool's schema",
          `"model":"${model}","tools":[{"type":"function","function":{"name":"f","parameters":{"maximum":${big}}}}]`,
          { tools: [{ type: "function", function: { name: "f", parameters: { maximum: big } } }] },
        ],
        [
          surface,
          "an older function's schema",
          `"model":"${model}","functions":[{"name":"f","parameters":{"maximum":${big}}}]`,
          { tools: [{ type: "function", function: { name: "f", parameters: { maximum: big } } }] },
        ],
      ] as const,
  ),
)("%s: %s", async (surface, _name, members, expected) => {
  const body = await sent(surface, `{${members},"messages":[{"role":"developer","content":"d"},${user}]}`);
  for (const [name, value] of Object.entries(expected)) expect(spellings(body[name]!)).toEqual(value);
  expect(spellings((body["messages"] as Lossless[]).at(-1)!)).toEqual({ role: "user", content: "hi", weight: "1.0" });
  expect(body["model"]).toBe("x");
});

/** Numbers as their texts. */
function spellings(value: Lossless): unknown {
  if (value instanceof LosslessNumber) return value.text;
  if (Array.isArray(value)) return value.map(spellings);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, spellings(one)]));
}

test("a field that has another name at the upstream, and messages that are changed for it", async () => {
  const seed = await sent(
    "gateway",
    `{"model":"plain/x","seed":${big},"max_completion_tokens":5.0,"messages":[${user}]}`,
  );
  expect(spellings(seed)).toMatchObject({ random_seed: big, max_tokens: "5.0" });
  const calls = `[{"id":"a long identifier","type":"function","function":{"name":"f","arguments":"{}"},"rank":1.0}]`;
  const turns = `{"role":"assistant","content":null,"tool_calls":${calls}},{"role":"tool","tool_call_id":"a long identifier","content":[{"type":"text","text":"t","weight":2.0}]}`;
  const { messages } = await sent("gateway", `{"model":"plain/x","messages":[${user},${turns}]}`);
  const [, assistant, tool] = spellings(messages!) as Record<string, unknown>[];
  expect(assistant).toMatchObject({ tool_calls: [{ rank: "1.0" }] });
  expect(tool!["tool_call_id"]).toMatch(/^[A-Za-z0-9]{9}$/);
});

const number = fc.constantFrom("1.0", big, "-0.0", "1e3", "0.30", "123456789012345678901", "7");
const json = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    number,
    fc.constantFrom('"x"', '"\\u0041\\/"', '"model"', "true", '"é😀"'),
    fc.array(tie("value"), { maxLength: 3 }).map((some) => `[${some.join(" , ")}]`),
    tie("object"),
  ),
  object: fc
    .array(fc.tuple(fc.constantFrom("a", "b", "\\u0061", "minimum", "model", "messages"), tie("value")), {
      maxLength: 4,
    })
    .map((members) => `{${members.map(([name, value]) => `"${name}": ${value}`).join(",")}}`),
}));
/** Members that are sent on as they are. */
const passed = fc.oneof(
  fc.tuple(fc.constantFrom("xa", "xb", "x\\u0063"), json.value),
  fc.tuple(fc.constantFrom("seed", "top_logits"), fc.constantFrom(big, "5", "1.0")),
  fc.tuple(fc.constant("metadata"), fc.constant('{"a":"\\u0041"}')),
);
const message = fc
  .tuple(
    fc.constantFrom("user", "user", "assistant", "system"),
    fc.array(fc.tuple(fc.constantFrom("xm", "xn"), json.value)),
  )
  .map(
    ([role, extra]) => `{${[`"role":"${role}","content":"hi"`, ...extra.map(([n, v]) => `"${n}":${v}`)].join(",")}}`,
  );

test.each(surfaces)("%s: any body arrives as it was written, but for what is patched", async (surface, model) => {
  await fc.assert(
    fc.asyncProperty(
      // A name stands once at the top.
      fc.uniqueArray(passed, { maxLength: 5, selector: ([name]) => name }),
      fc.array(message, { minLength: 1, maxLength: 4 }),
      fc.subarray(['"user":null', '"google":{"thinking_budget":1.0}', '"extra_body":{"xe":1.0}']),
      fc.nat(10),
      async (members, messages, odd, place) => {
        const written = [...odd, ...members.map(([name, value]) => `"${name}" : ${value}`)];
        const body = `{${written.toSpliced(place, 0, `"messages":[${messages.join()}]`).join(",")},"model":"${model}"}`;
        const source = parseLossless(body) as Record<string, Lossless>;
        const { user: _u, google: _g, extra_body: literal, messages: _m, ...rest } = source;
        const arrived = await sent(surface, body);
        expect(arrived).toMatchObject({ ...rest, ...(literal as object), model: "x" });
        for (const name of ["google", "extra_body"]) expect(arrived).not.toHaveProperty(name);
        // A persona's own words stand before, or between the instructions and the first turn.
        const own = (arrived["messages"] as Lossless[]).filter(
          (one) => !JSON.stringify(one).includes('"content":"hi"'),
        );
        expect(own.length > 0).toBe(surface === "orchestrator");
        expect((arrived["messages"] as Lossless[]).filter((one) => !own.includes(one))).toEqual(
          source["messages"] as Lossless[],
        );
      },
    ),
    { numRuns: runs(300), includeErrorInReport: true },
  );
});
