/** However long a caller's texts are: what is answered, logged, counted and traced stays small. */
import { describe, expect, test } from "bun:test";
import { maxQuoted } from "../../src/lib/text/truncate.ts";
import { observe } from "../helpers/observed-troupe.ts";
import { parsePrometheus } from "../helpers/prometheus.ts";
import type { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const families = ["openai", "anthropic", "google", "xai", "mistral"] as const;

/** A request that every family takes. */
const common = (model: string) => ({
  model,
  messages: [
    { role: "system", content: "s", name: "n" },
    {
      role: "user",
      name: "n",
      content: [
        { type: "text", text: "t" },
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "low" } },
      ],
    },
    {
      role: "assistant",
      content: "c",
      reasoning_content: "r",
      tool_calls: [{ id: "i", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "i", content: "c" },
  ],
  tools: [{ type: "function", function: { name: "f", description: "d", parameters: { type: "object" } } }],
  tool_choice: { type: "function", function: { name: "f" } },
  stop: ["s"],
  metadata: { k: "v" },
  user: "u",
  safety_identifier: "s",
  prompt_cache_key: "p",
  extra_body: { k: "v" },
});

/** And one with a string in every other place that the format has for one. */
const rest = (model: string) => ({
  model,
  messages: [
    { role: "developer", content: [{ type: "text", text: "t" }] },
    {
      role: "user",
      content: [
        { type: "file", file: { filename: "f", file_data: "data:application/pdf;base64,AAAA" } },
        { type: "file", file: { file_id: "f" } },
        { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      ],
    },
    { role: "assistant", refusal: "r", function_call: { name: "f", arguments: "{}" }, audio: { id: "a" } },
    { role: "function", name: "f", content: "c" },
  ],
  tools: [{ type: "custom", custom: { name: "c", description: "d" } }],
  response_format: { type: "json_schema", json_schema: { name: "n", description: "d", schema: { type: "object" } } },
  reasoning_effort: "low",
  modalities: ["text"],
  audio: { format: "pcm16", voice: "v" },
  service_tier: "t",
  prompt_cache_retention: "p",
  previous_response_id: "p",
  variables: { topic: "v" },
  google: { thinking_budget: 1 },
});

type Path = readonly (string | number)[];

/** The places of all strings, and of all objects, whose keys are texts too. */
function* placesIn(value: unknown, path: Path = []): Generator<{ path: Path; isKey: boolean }> {
  if (typeof value === "string") yield { path, isKey: false };
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield { path, isKey: true };
  for (const [key, inner] of Object.entries(value)) {
    yield* placesIn(inner, [...path, Array.isArray(value) ? Number(key) : key]);
  }
}

function changed(value: unknown, path: Path, change: (one: unknown) => unknown): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return change(value);
  const copy: Record<string, unknown> = Array.isArray(value) ? ([...value] as never) : { ...(value as object) };
  copy[first] = changed(copy[first], rest, change);
  return copy;
}

const huge = "Ω".repeat(20_000);
/** What a header may hold: Bun refuses more than 16 KiB of them in all. */
const longHeader = "h".repeat(8000);

/** Of any answer here: errors, and the echo of a model's name. */
async function expectSmall(response: Response): Promise<number> {
  const headers = [...response.headers].map(([name, value]) => name.length + value.length);
  expect((await response.text()).length).toBeLessThan(4096);
  expect(Math.max(...headers)).toBeLessThan(1100);
  return response.status;
}

async function sendBodies(troupe: Troupe): Promise<number> {
  let sent = 0;
  const models = [...families.map((name) => ["/gateway", `${name}/m`] as const), ["", "troupe/guide"] as const];
  for (const [base, model] of models) {
    for (const body of [common(model), rest(model)]) {
      for (const { path, isKey } of placesIn(body)) {
        const enlarge = (one: unknown) => (isKey ? { ...(one as object), [huge]: huge } : huge);
        await expectSmall(await troupe.post(`${base}/v1/chat/completions`, changed(body, path, enlarge)));
        sent += 1;
      }
    }
  }
  return sent;
}

async function sendPathsAndHeaders(troupe: Troupe): Promise<void> {
  for (const base of ["", "/gateway"]) {
    const paths = ["/v1/models/", "/v1/chat/completions/", "/v1/chat/completions?after=", "/v1/", "/docs/", "/"];
    for (const path of [...paths, "/v1/chat/completions?order=", "/v1/chat/completions?metadata[a]="]) {
      for (const method of ["GET", "DELETE", "POST", "PUT"]) {
        await expectSmall(await troupe.fetch(`${base}${path}${"p".repeat(8000)}`, { method }));
      }
    }
    const names = ["authorization", "content-type", "content-encoding", "service-request-id", "idempotency-key"];
    const more = ["last-event-id", "traceparent", "origin", "user-agent", "accept", "x-request-id", "x-forwarded-for"];
    for (const name of [...names, ...more]) {
      const init = { headers: { [name]: longHeader } };
      await expectSmall(await troupe.post(`${base}/v1/chat/completions`, common("openai/m"), init));
      await expectSmall(await troupe.fetch(`${base}/v1/models/x`, init));
    }
    const preflight = { "access-control-request-method": "POST", "access-control-request-headers": longHeader };
    const headers = { origin: "https://app.example.com", ...preflight };
    await expectSmall(await troupe.fetch(`${base}/v1/chat/completions`, { method: "OPTIONS", headers }));
  }
  // A zone of an IPv6 address is part of no network: whoever is believed could make it as long as a header.
  const zoned = { "x-forwarded-for": `fe80::1%${"z".repeat(8000)}` };
  expect(await expectSmall(await troupe.fetch("/v1/models", { key: null, headers: zoned }))).toBe(401);
}

describe("a caller's text is bounded wherever it is repeated", () => {
  test("in every place of every request", async () => {
    using upstream = new UpstreamServer(() => jsonResponse({ error: { message: "no", type: "t", code: "c" } }, 400));
    const providers = Object.fromEntries(families.map((name) => [name, { baseUrl: upstream.url }]));
    let sent = 0;
    const config = { trustedProxies: ["127.0.0.1"], cors: { origins: ["https://app.example.com"] } };
    const told = await observe({ providers, config }, async (troupe) => {
      for (const name of families) {
        const before = upstream.requests.length;
        await troupe.post("/gateway/v1/chat/completions", common(`${name}/m`));
        expect(upstream.requests.length).toBe(before + 1);
      }
      sent = await sendBodies(troupe);
      await sendPathsAndHeaders(troupe);
    });
    expect(sent).toBeGreaterThan(300);
    expect(told.lines.length).toBeGreaterThan(sent);
    for (const line of told.lines) expect(line.length).toBeLessThan(2048);
    expect(told.metrics.length).toBeLessThan(200_000);
    expect(told.metrics).not.toContain("Ω");
    const traces = told.telemetry.join("");
    expect(traces.length / sent).toBeLessThan(4096);
    expect(traces).not.toContain("Ω".repeat(maxQuoted));
  });

  test("a model's name of more than 256 characters is refused, on both surfaces", async () => {
    const lengths: [number, number][] = [];
    await observe({}, async (troupe) => {
      for (const base of ["", "/gateway"]) {
        for (const length of [256, 257, 1_000_000]) {
          const model = `builtin/${"m".repeat(length - "builtin/".length)}`;
          const response = await troupe.post(`${base}/v1/chat/completions`, {
            model,
            messages: [{ role: "user", content: "x" }],
          });
          const { error } = (await response.json()) as { error: { param: string; message: string } };
          if (length > 256) expect(error.message).toBe("model must have at most 256 characters.");
          lengths.push([length, response.status]);
        }
      }
    });
    expect(lengths.filter(([, status]) => status === 400).map(([length]) => length)).toEqual([
      257, 1_000_000, 257, 1_000_000,
    ]);
  });

  test("names that callers make up take a bounded number of labels, and none from those that are set up", async () => {
    const answer = { choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }] };
    using upstream = new UpstreamServer(({ json }) =>
      (json as { model: string }).model.startsWith("unknown")
        ? jsonResponse({ error: { message: "no such model" } }, 404)
        : jsonResponse(answer),
    );
    const { metrics } = await observe(
      { providers: { ollama: { baseUrl: upstream.url, models: ["listed"] } } },
      async (troupe) => {
        const ask = async (model: string) => {
          const messages = [{ role: "user", content: "hi" }];
          await (await troupe.post("/gateway/v1/chat/completions", { model: `ollama/${model}`, messages })).text();
        };
        for (let at = 0; at < 20; at += 1) await ask(`unknown-${at}`);
        for (let at = 0; at < 150; at += 1) await ask(`${at}-${"m".repeat(240)}`);
        await ask("listed");
      },
    );
    const { samples } = parsePrometheus(metrics).get("gen_ai_server_request_duration_seconds")!;
    const labels = new Set(samples.map(({ labels }) => labels["gen_ai_request_model"]!));
    expect(labels.size).toBe(102);
    expect(labels.has("other") && labels.has("listed")).toBe(true);
    expect([...labels].some((label) => label.startsWith("unknown") || label.length > maxQuoted)).toBe(false);
  });
});
