/** Files of text reach each upstream as the text that they hold, whatever charset it is in, by each client format. */
import { describe, expect, test } from "bun:test";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const upstream = untilEnd(new UpstreamServer(() => jsonResponse({ error: { message: "Enough was seen." } }, 400)));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      ...{ anthropic: { baseUrl }, google: { baseUrl }, openai: { baseUrl } },
      bedrock: { baseUrl, apiKey: "k" },
      mistral: { baseUrl },
    },
  }),
);

const text = "Größe;Preis\nT-Shirt;5 £\n";
const latin1 = Buffer.from(text, "latin1");
const wide = Buffer.from(`\ufeff${text}`, "utf16le");
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const models = {
  anthropic: "anthropic/claude-sonnet-4-5",
  google: "google/gemini-2.5-flash",
  bedrock: "bedrock/amazon.nova-pro-v1:0",
  openai: "openai/gpt-5",
};

/** Every string of what was sent that may be a text or bytes of one, as text. */
const sentText = (sent: string): string[] => {
  const found: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === "string") found.push(value.startsWith("data:") ? value.slice(value.indexOf(",") + 1) : value);
    else if (typeof value === "object" && value !== null) for (const one of Object.values(value)) visit(one);
  };
  visit(JSON.parse(sent));
  return found.flatMap((one) => [
    one,
    Buffer.from(one, "base64")
      .toString("utf8")
      .replace(/^\ufeff/, ""),
  ]);
};

const dataUrl = (bytes: Buffer, type: string) => `data:${type};base64,${bytes.toString("base64")}`;
const forms: Readonly<Record<string, { filename?: string; file_data: string }>> = {
  "declared in a data URL": { file_data: dataUrl(latin1, "text/csv;charset=iso-8859-1") },
  "declared in quotes": { file_data: dataUrl(latin1, 'text/csv; charset="ISO-8859-1"') },
  "declared and not in base64": {
    file_data: `data:text/csv;charset=iso-8859-1,${latin1.toString("latin1").replace(/[^\w;]/g, (sign) => `%${sign.charCodeAt(0).toString(16).padStart(2, "0")}`)}`,
  },
  "of no charset": { file_data: dataUrl(latin1, "text/csv") },
  "known by its name": { filename: "a.csv", file_data: latin1.toString("base64") },
  "of UTF-16 with a mark": { filename: "a.txt", file_data: wide.toString("base64") },
  "of UTF-16 with a mark as UTF-8": { file_data: dataUrl(wide, "text/plain;charset=utf-8") },
  "of UTF-16 that is declared": { file_data: dataUrl(wide.subarray(2), "text/plain;charset=utf-16le") },
  "of UTF-8": { file_data: dataUrl(Buffer.from(text), "text/csv") },
  "of UTF-8 with a mark": { file_data: dataUrl(Buffer.from(`\ufeff${text}`), "text/csv") },
};

/** Asks about a file by chat. */
const ask = (model: string, text: string, file: object) =>
  troupe.post("/gateway/v1/chat/completions", {
    model,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text },
          { type: "file", file },
        ],
      },
    ],
    use_responses_api: true,
  });

describe.each(Object.entries(models))("%s", (_, model) => {
  test.each(Object.entries(forms))("gets a text %s", async (_, file) => {
    await ask(model, "Sum it.", file);
    expect(sentText(upstream.last.text)).toContain(text);
  });

  test("gets a large one too", async () => {
    const large = text.repeat(20_000);
    const file = { file_data: dataUrl(Buffer.from(large, "latin1"), "text/csv;charset=iso-8859-1") };
    await ask(model, "Sum it.", file);
    expect(sentText(upstream.last.text).includes(large)).toBe(true);
  });

  test.each([
    ["of another alphabet", dataUrl(Buffer.from("cff0e8e2e5f2", "hex"), "text/plain"), "does not say its charset"],
    ["of an unknown charset", dataUrl(latin1, "text/plain;charset=cp437"), "'cp437', which is not known here"],
    ["that is none", `data:text/plain;base64,${png}`, "is no text"],
  ])("gets no text %s", async (_, file_data, why) => {
    const seen = upstream.requests.length;
    const answer = await ask(model, "Sum it.", { file_data });
    expect(answer.status).toBe(400);
    const { error } = (await answer.json()) as { error: { code: string; param: string; message: string } };
    expect(error.code).toBe("invalid_value");
    expect(error.param).toStartWith("messages[0].content[1].file");
    expect(error.message).toContain(why);
    expect(upstream.requests.length).toBe(seen);
  });

  test.each([
    ["a data URL", { file_data: `data:;base64,${png}` }],
    ["bytes", { file_data: png }],
    ["a data URL of anything", { file_data: `data:application/octet-stream;base64,${png}` }],
  ])("gets an image of no type, as %s, as the image that it is", async (_, file) => {
    await ask(model, "Look.", file);
    expect(upstream.last.text).toMatch(/image\/png|"format":"png"/);
    expect(upstream.last.text).toContain(png);
  });
});

describe("a text of ISO-8859-1 from", () => {
  const data = latin1.toString("base64");
  const native: Readonly<Record<string, string>> = { Messages: "anthropic", Gemini: "google", Responses: "openai" };
  const charset = "text/csv; charset=iso-8859-1";
  test.each<[client: string, path: string, body: object]>([
    [
      "Responses",
      "/gateway/v1/responses",
      {
        input: [
          {
            role: "user",
            content: [
              { type: "input_file", filename: "a.csv", file_data: dataUrl(latin1, "text/csv;charset=iso-8859-1") },
            ],
          },
        ],
      },
    ],
    [
      "Messages",
      "/gateway/v1/messages",
      {
        max_tokens: 9,
        messages: [
          { role: "user", content: [{ type: "document", source: { type: "base64", media_type: charset, data } }] },
        ],
      },
    ],
    ["Gemini", "", { contents: [{ role: "user", parts: [{ inlineData: { mimeType: charset, data } }] }] }],
  ])("%s reaches each other upstream", async (client, path, body) => {
    for (const model of Object.values(models)) {
      if (model.startsWith(native[client]!) || model.startsWith("openai")) continue;
      const own = path || `/gateway/v1beta/models/${model}:generateContent`;
      const answer = await troupe.post(own, { ...(path && { model }), ...body });
      expect([model, await answer.text(), sentText(upstream.last.text).includes(text)]).toEqual([
        model,
        expect.any(String),
        true,
      ]);
    }
  });

  test("chat goes to upstreams of chat completions as it came", async () => {
    const file = { filename: "a.csv", file_data: dataUrl(latin1, "text/csv;charset=iso-8859-1") };
    await ask("mistral/mistral-medium-latest", "Sum it.", file);
    expect(upstream.last.text).toContain(JSON.stringify(file));
  });

  test("Gemini goes to Google as it came, and is refused elsewhere where it can't be read", async () => {
    const inlineData = { mimeType: "text/plain", data: Buffer.from("cff0e8e2e5f2", "hex").toString("base64") };
    const body = { contents: [{ role: "user", parts: [{ text: "Read." }, { inlineData }] }] };
    await troupe.post("/gateway/v1beta/models/google/gemini-2.5-flash:generateContent", body);
    expect(upstream.last.text).toContain(inlineData.data);
    const refused = await troupe.post(`/gateway/v1beta/models/${models.anthropic}:generateContent`, body);
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain(
      "contents[0].parts[1].inlineData.data is no UTF-8, and does not say its charset",
    );
  });
});
