/** Claude in Microsoft Foundry: Anthropic's clients pass, others are translated, by the key or the token that the resource takes. */
import { expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { untilEnd } from "../../helpers/served.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";

const answer = {
  id: "msg_foundry",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5-20250929",
  content: [{ type: "text", text: "Hé" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 2 },
};
const refusal = (status: number, message: string) =>
  jsonResponse({ type: "error", error: { type: "authentication_error", message } }, status);

const upstream = untilEnd(
  new UpstreamServer(({ path, headers }) => {
    const isKnown = headers.get("api-key") === "k" || headers.get("authorization") === "Bearer t";
    if (!isKnown || headers.has("x-api-key")) return refusal(401, "no key of this resource");
    if (headers.get("anthropic-version") === null) return refusal(400, "anthropic-version is required");
    if (path === "/anthropic/v1/messages/count_tokens") return jsonResponse({ input_tokens: 9 });
    return path === "/anthropic/v1/messages" ? jsonResponse(answer) : refusal(404, `no such path: ${path}`);
  }),
);
const baseUrl = `${upstream.url}/anthropic`;
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      foundry: { baseUrl, apiKey: "k" },
      entra: { baseUrl, dialect: "foundry", apiKey: "t", options: { bearer: true } },
    },
  }),
);

test.each(["foundry", "entra"])("%s: Messages pass untranslated, and are counted there", async (provider) => {
  const client = new Anthropic({
    baseURL: `${troupe.url}/gateway`,
    apiKey: troupe.key,
    authToken: null,
    maxRetries: 0,
  });
  const asked = { model: `${provider}/claude-sonnet-4-5`, messages: [{ role: "user" as const, content: "Hi" }] };
  const { data, response } = await client.messages.create({ ...asked, max_tokens: 9 }).withResponse();
  expect(JSON.parse(JSON.stringify(data))).toEqual(answer);
  expect(response.headers.get("x-troupe-upstream-format")).toBe("messages");
  expect(upstream.last.text).toBe(JSON.stringify({ ...asked, max_tokens: 9 }).replace(`${provider}/`, ""));
  expect(await client.messages.countTokens(asked)).toMatchObject({ input_tokens: 9 });
});

test("chat completions are translated", async () => {
  const messages = [{ role: "user" as const, content: "Hi" }];
  const { data, response } = await troupe
    .client("gateway")
    .chat.completions.create({ model: "foundry/claude-sonnet-4-5", messages })
    .withResponse();
  expect([data.choices[0]?.message.content, response.headers.get("x-troupe-upstream-format")]).toEqual([
    "Hé",
    "messages",
  ]);
});
