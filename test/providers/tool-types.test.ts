/** Tools, calls and choices of types that Troupe does not know, and members that hold nothing. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import type { Call, RemoteProvider } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";
import { runs } from "../helpers/long-form.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

const account = { name: "up", baseUrl: "https://up.test", headers: {}, models: [], options: {}, modelRules: [] };

function bodyOf(provider: RemoteProvider, changes: object, extras: Record<string, unknown> = {}) {
  const body = { model: `${provider.name}/m`, messages: [{ role: "user", content: "Hi" }], ...changes };
  const request = checkChatRequest(structuredClone(body));
  const call: Call = { model: "m", request, extras, account, media: new Map() };
  return JSON.parse(textOfBody(provider.encode(call).body));
}

const remote = providers.filter((provider) => provider.kind === "remote");
const speaksChat = ({ format }: RemoteProvider) => format === "chat";
/** Those that are sent `tool_choice: allowed_tools` as it came. */
const takesAllowedTools = new Set(["openai", "azure"]);
const ways = [
  ...remote.filter((one) => !speaksChat(one)).map((provider) => [provider.name, provider, {}] as const),
  ...remote
    .filter(({ extras }) => "use_responses_api" in extras.properties)
    .map((provider) => [`${provider.name} by responses`, provider, { use_responses_api: true }] as const),
];
const plain = remote.filter(speaksChat).map((provider) => [provider.name, provider] as const);

const known = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };
const type = fc.string({ minLength: 1, maxLength: 64 }).filter((one) => !/^(function|custom|allowed_tools)$/.test(one));
const members = fc.dictionary(
  fc.constantFrom("server_label", "function", "custom", "name"),
  fc.jsonValue({ maxDepth: 1 }),
);

describe("a tool of a type that is not known", () => {
  test.each(plain)("goes to %s as it came", (_, provider) => {
    fc.assert(
      fc.property(type, members, (named, rest) => {
        const other = JSON.parse(JSON.stringify({ ...rest, type: named }));
        expect(bodyOf(provider, { tools: [known, other], tool_choice: other })).toMatchObject({
          tools: [known, other],
          tool_choice: other,
        });
      }),
      { numRuns: runs(30) },
    );
  });

  test.each(ways)("is refused by name for %s", (_, provider, extras) => {
    fc.assert(
      fc.property(type, members, fc.boolean(), (named, rest, chosen) => {
        const other = { ...rest, type: named };
        const changes = chosen ? { tools: [known], tool_choice: other } : { tools: [known, other] };
        let error: unknown;
        try {
          bodyOf(provider, changes, extras);
        } catch (thrown) {
          error = thrown;
        }
        expect(error).toBeInstanceOf(ApiError);
        const param = chosen ? "tool_choice.type" : "tools[1].type";
        expect(error).toMatchObject({ status: 400, param, message: expect.stringContaining(`'${named}'`) });
      }),
      { numRuns: runs(50) },
    );
  });

  test("stays where allowed_tools names its type, for upstreams that know no such choice", () => {
    const other = { type: "mcp", server_label: "docs" };
    const custom = { type: "custom", custom: { name: "draw" }, function: {} };
    const tools = [known, custom, other];
    for (const [, provider] of plain) {
      const allowed = (entries: object[]) =>
        bodyOf(provider, {
          tools,
          tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: entries } },
        });
      if (takesAllowedTools.has(provider.name)) continue;
      expect(allowed([{ type: "mcp" }, { type: "custom", custom: { name: "draw" }, function: null }])).toMatchObject({
        tools: [custom, other],
        tool_choice: "auto",
      });
      expect(allowed([{ type: "function", name: "look" }]).tools).toEqual([known]);
    }
  });
});

describe("a call of such a type", () => {
  const other = { id: "c", type: "builtin_function", function: { name: "$web", arguments: "{}" } };
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "I look", tool_calls: [other] },
    { role: "tool", tool_call_id: "c", content: "found" },
  ];

  test.each(plain)("goes to %s as it came", (_, provider) => {
    const [, { tool_calls }] = bodyOf(provider, { messages }).messages;
    expect(tool_calls).toEqual([{ ...other, id: expect.any(String) }]);
  });

  test.each(ways)("is refused by name for %s", (_, provider, extras) => {
    expect(() => bodyOf(provider, { messages }, extras)).toThrow("messages[1].tool_calls[0].type: 'builtin_function'");
  });
});

describe("an effort that is not known", () => {
  const words = fc.oneof(
    fc.string({ minLength: 1, maxLength: 64 }),
    fc.constantFrom("default", "constructor", "__proto__"),
  );

  test.each(remote.map((provider) => [provider.name, provider] as const))(
    "is sent by %s as it is, or not at all",
    (_, provider) => {
      const known = /^(none|minimal|low|medium|high|xhigh|max)$/;
      const without = JSON.stringify(bodyOf(provider, {}));
      fc.assert(
        fc.property(
          words.filter((word) => !known.test(word)),
          (word) => {
            const {
              reasoning_effort,
              thinking,
              enable_thinking: _,
              ...rest
            } = bodyOf(provider, { reasoning_effort: word });
            expect(["undefined", "string"]).toContain(typeof reasoning_effort);
            if (!speaksChat(provider)) expect(thinking).toBeUndefined();
            expect(JSON.stringify(rest)).toBe(without);
          },
        ),
        { numRuns: runs(30) },
      );
    },
  );
});
