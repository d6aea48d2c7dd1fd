/** A persona's tools by MCP, on an upstream of every family, for a client of every format: the upstreams refuse what the real ones refuse. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { testServer } from "../helpers/mcp.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { seals } from "../helpers/upstreams/agent.ts";
import { familyNames, models, Stage } from "./stage.ts";

const folder = untilEnd(new TempFolder());

mkdirSync(folder.file("house"));
for (const [family, model] of Object.entries(models)) {
  const text = `description: Works.\nmodel: ${model}\nsystem: You work.\nmcp: [{ server: desk, allow: [add] }]\n`;
  writeFileSync(folder.file(`house/${family}.yaml`), text);
}
const stage = untilEnd(await Stage.start({ personas: folder.path, config: { mcpServers: { desk: testServer() } } }));
await stage.troupe.server.services.mcp.find("desk")!.tools();

const said = "add them";
const formats = {
  chat: { path: () => "/v1/chat/completions", body: { messages: [{ role: "user", content: said }] } },
  responses: { path: () => "/v1/responses", body: { input: said } },
  messages: { path: () => "/v1/messages", body: { max_tokens: 100, messages: [{ role: "user", content: said }] } },
  google: {
    path: (model: string, isStream: boolean) =>
      `/v1beta/models/${model}:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: said }] }] },
  },
};
/** A model that adds twice, one sum after the other, and two at once. */
const script: Stage["script"] = ({ results, tools }) => {
  const name = tools.find((tool) => tool.name.endsWith("add"))?.name ?? "desk__add";
  if (results.length === 0) return { calls: [{ id: "toolu_w1", name, args: { a: 1, b: 2 } }] };
  if (results.length === 1) {
    return {
      calls: [
        { id: "toolu_w2", name, args: { a: 10, b: 20 } },
        { id: "toolu_w3", name, args: { a: 100, b: 200 } },
      ],
    };
  }
  return { text: `Sums: ${results.map(({ text }) => text).join(" ")}` };
};

test.each([false, true])("a thought behind calls of both stays with the caller's, streamed: %p", async (stream) => {
  stage.script = ({ tools }) => ({
    calls: tools.map(({ name }, at) => ({ id: `toolu_w${at + 1}`, name, args: {} })).toReversed(),
  });
  const tools = [{ type: "function", function: { name: "mine", parameters: { type: "object", properties: {} } } }];
  const messages = [{ role: "user", content: said }];
  const text = await (
    await stage.troupe.post("/v1/chat/completions", { model: "house/google", stream, messages, tools })
  ).text();
  expect(text).toContain('"name":"mine"');
  expect(text).not.toContain("desk__add");
  expect(text).toContain(seals.google);
});

describe.each(Object.keys(formats) as (keyof typeof formats)[])("a client of %s", (format) => {
  describe.each([false, true])("streamed: %p", (isStream) => {
    test.each(familyNames)("on an upstream of %s gets one answer of all turns", async (family) => {
      stage.asked = [];
      stage.script = script;
      const model = `house/${family}`;
      const { path, body } = formats[format];
      const sent = format === "google" ? body : { model, stream: isStream, ...body };
      const response = await stage.troupe.post(path(model, isStream), sent);
      const text = await response.text();
      expect([response.status, text]).toEqual([200, expect.any(String)]);
      const words = isStream
        ? [...text.matchAll(/"(?:content|text|delta)":"((?:[^"\\]|\\.)*)"/g)].map((match) => match[1]).join("")
        : text;
      for (const sum of ["3", "30", "300"]) expect(words).toContain(sum);
      expect(words).toContain("Sums");
      const turns = stage.asked.map(({ request }) => request);
      expect(
        turns.map(({ results }) => results.map((one) => JSON.parse(JSON.stringify(one.text)) as string).length),
      ).toEqual([0, 1, 3]);
      // Signed thoughts are back with the results that they led to.
      const seal = seals[family as keyof typeof seals];
      if (seal !== undefined && stage.asked[0]!.family === family) {
        expect(turns[1]!.seals).toContain(seal);
        expect(turns[2]!.seals.filter((one) => one === seal).length).toBeGreaterThanOrEqual(1);
      }
      expect(text).not.toContain('desk__add"');
    });
  });
});
