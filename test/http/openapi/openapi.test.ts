import { describe, expect, test } from "bun:test";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { Validator } from "@seriousme/openapi-schema-validator";
import { adminRoutes } from "../../../src/admin/routes.ts";
import { surfaceNames } from "../../../src/config/surfaces.ts";
import { openApiDocument } from "../../../src/http/app.ts";
import { resolved } from "../../helpers/resolved-description.ts";
import { untilEnd } from "../../helpers/served.ts";
import { Troupe } from "../../helpers/troupe.ts";

const troupe = untilEnd(await Troupe.start());

type Answer = { headers?: object; content?: object };
type Operation = {
  operationId?: string;
  security: unknown[];
  parameters?: { name: string }[];
  requestBody?: { content: { "application/json": { schema: { properties: object } } } };
  responses: Record<string, Answer>;
};
type Document = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
};

describe("the API's description", () => {
  test("is valid OpenAPI 3.1", async () => {
    const document = (await openApiDocument()) as Document;
    const result = await new Validator().validate(structuredClone(document) as never);
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(document.openapi).toBe("3.1.0");
  });

  test("gives each operation an id of its own, by which clients are generated and links lead on", async () => {
    const { paths } = resolved(await openApiDocument()) as Document;
    const ids = Object.values(paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ operationId }) => operationId ?? []),
    );
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    expect(ids).toContain("gatewayCreateChatCompletion");
  });

  test("names every route that is mounted, each with its keys and errors", async () => {
    const { paths } = resolved(await openApiDocument()) as Document;
    const mounted = troupe.server.services && (await routesOf(troupe));
    expect(
      Object.entries(paths)
        .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
        .sort(),
    ).toEqual(mounted);
    const create = paths["/gateway/v1/chat/completions"]!["post"]!;
    const errors = ["400", "401", "403", "404", "405", "408", "413", "415", "422", "429", "500", "503", "504"];
    expect(Object.keys(create.responses).sort()).toEqual(["200", ...errors, "default"]);
    expect(Object.keys(paths["/v1/chat/completions"]!["post"]!.responses).sort()).toEqual(["200", ...errors]);
    expect(Object.keys(create.responses["200"]!.content!)).toEqual(["application/json", "text/event-stream"]);
    for (const methods of Object.values(paths)) {
      for (const { responses } of Object.values(methods)) {
        for (const { headers } of Object.values(responses)) {
          expect(Object.keys(headers!)).toEqual(
            expect.arrayContaining(["X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]),
          );
        }
        expect(Object.keys(responses)).toEqual(expect.arrayContaining(["200", "403", "405", "500"]));
      }
    }
    expect(create.security).toEqual([{ apiKey: [] }, { "x-api-key": [] }, { "x-goog-api-key": [] }, { "api-key": [] }]);
    expect(paths["/health"]!["get"]!.security).toEqual([]);
  });

  test("tells of every header and option that a caller may send, and of those that come back", async () => {
    const { paths } = resolved(await openApiDocument()) as Document;
    for (const [path, own] of [
      ["/v1/chat/completions", ["variables", "extra_body"]],
      ["/gateway/v1/chat/completions", ["extra_body", "thinking_budget", "system_cache_control"]],
    ] as const) {
      const { parameters, requestBody, responses } = paths[path]!["post"]!;
      const names = parameters!.map(({ name }) => name);
      expect(names).toEqual(["service-request-id", "Idempotency-Key", "Last-Event-ID"]);
      const { properties } = requestBody!.content["application/json"].schema;
      expect(Object.keys(properties)).toEqual(expect.arrayContaining([...own]));
      expect(Object.keys(responses["200"]!.headers!)).toContain("Idempotent-Replayed");
      expect(Object.keys(responses["405"]!.headers!)).toContain("Allow");
      expect(Object.keys(responses["429"]!.headers!)).toContain("Retry-After");
    }
    for (const path of ["/health", "/healthz"]) expect(Object.keys(paths[path]!["get"]!.responses)).toContain("503");
  });

  test("says each shape once, by its name, and is small enough to generate clients from", async () => {
    const document = (await openApiDocument(surfaceNames, adminRoutes)) as Document;
    expect(JSON.stringify(document).length).toBeLessThan(480 * 1024);
    const { schemas } = document.components;
    const named = ["Message", "AssistantMessage", "ChatCompletion", "ResponseObject", "Key", "Budget", "Call", "Usage"];
    expect(Object.keys(schemas)).toEqual(expect.arrayContaining([...named, "Model", "MessagesRequest", "Error"]));
    const { post } = document.paths["/gateway/v1/chat/completions"]!;
    const whole = post!.responses["200"]!.content as Record<string, { schema: unknown }>;
    expect(whole["application/json"]!.schema).toEqual({ $ref: "#/components/schemas/ChatCompletion" });
    // None is written out where it is used, and each reference leads somewhere.
    const inner = (value: object): object[] =>
      Object.values(value).flatMap((one) => (typeof one === "object" && one !== null ? [one, ...inner(one)] : []));
    const used = [...inner(document.paths), ...Object.values(schemas).flatMap(inner)] as {
      title?: string;
      $ref?: string;
    }[];
    expect(used.filter(({ title }) => typeof title === "string")).toEqual([]);
    const roots = document.components as unknown as Record<string, Record<string, unknown>>;
    const lost = used
      .flatMap(({ $ref }) => $ref ?? [])
      .filter((ref) => {
        const [, , kind, name] = ref.split("/");
        return roots[kind!]?.[name!] === undefined;
      });
    expect(lost).toEqual([]);
    // No parameter and no answer has the name of a schema: some generators make types of all of them.
    for (const kind of ["parameters", "responses"]) {
      expect(Object.keys(roots[kind]!).filter((name) => Object.hasOwn(schemas, name))).toEqual([]);
    }
  });

  test("describes each event stream by its events, and each upload by its file, as a form first", async () => {
    const { paths } = resolved(await openApiDocument(surfaceNames, adminRoutes)) as Document;
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
    type Media = Record<string, { schema?: { required?: string[]; properties?: Record<string, { format?: string }> } }>;
    const streams = operations.flatMap(
      ({ responses }) => (responses["200"]!.content as Media | undefined)?.["text/event-stream"] ?? [],
    );
    expect(streams).toHaveLength(14);
    for (const { schema } of streams) {
      expect([Object.keys(schema!.properties!), schema!.required]).toEqual([["event", "data"], ["data"]]);
    }
    const forms = operations.flatMap(({ operationId, requestBody }) => {
      const [[type, media] = [], ...others] = Object.entries((requestBody?.content ?? {}) as unknown as Media);
      if (type !== "multipart/form-data") return [];
      const files = Object.entries(media!.schema!.properties!).filter(([, { format }]) => format === "binary");
      return [[operationId, files.map(([name]) => name), others.map(([name]) => name)]];
    });
    expect(forms).toEqual([
      ["gatewayImagesEdits", ["image"], ["application/json"]],
      ["gatewayImagesVariations", ["image"], ["application/json"]],
      ["gatewayAudioTranscriptions", ["file"], ["application/json"]],
      ["gatewayAudioTranslations", ["file"], ["application/json"]],
    ]);
  });

  test("is plain text: no reader shows a mark of Markdown as such", async () => {
    expect(JSON.stringify(await openApiDocument())).not.toMatch(/`|\*\*/);
  });

  test("a surface of its own stands at /v1", async () => {
    const { paths } = (await openApiDocument(["gateway"])) as Document;
    expect(Object.keys(paths)).toContain("/v1/chat/completions");
    expect(Object.keys(paths).some((path) => path.startsWith("/gateway"))).toBe(false);
  });
});

describe("the page at /docs", () => {
  test("loads nothing from outside, and its files are here", async () => {
    const response = await troupe.fetch("/docs", { key: null });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const html = await response.text();
    expect(html).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    const policy = response.headers.get("content-security-policy")!;
    const inline = html.match(/<script>([\s\S]*?)<\/script>/)![1]!;
    expect(policy).toContain(`'sha256-${new Bun.CryptoHasher("sha256").update(inline).digest("base64")}'`);
    for (const [path, type] of [
      ["/docs/swagger-ui-bundle.js", "text/javascript"],
      ["/docs/swagger-ui.css", "text/css"],
      ["/docs/json", "application/json"],
    ] as const) {
      expect(html.includes(`"${path.slice(1)}`) || path === "/docs/json").toBe(true);
      const file = await troupe.fetch(path, { key: null });
      expect(file.status).toBe(200);
      expect(file.headers.get("content-type")).toStartWith(type);
      expect((await file.bytes()).length).toBeGreaterThan(10_000);
    }
  });

  test("is compressed, and comes again only where it changed", async () => {
    let bytes = 0;
    for (const path of ["/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/json"]) {
      const ask = (headers: Record<string, string>) =>
        fetch(troupe.url + path, { headers, decompress: false } as never);
      const plain = await ask({ "accept-encoding": "identity" });
      const whole = Buffer.from(await plain.bytes());
      const small = await ask({ "accept-encoding": "gzip, deflate, br" });
      for (const [accepted, encoding, restored] of [
        ["gzip, deflate, br", "br", brotliDecompressSync],
        ["gzip", "gzip", gunzipSync],
        ["br;q=0, gzip", "gzip", gunzipSync],
        ["x-br, gzip;q=0.5", "gzip", gunzipSync],
      ] as const) {
        const answer = await ask({ "accept-encoding": accepted });
        expect([accepted, answer.headers.get("content-encoding")]).toEqual([accepted, encoding]);
        const compressed = await answer.bytes();
        expect(restored(compressed).equals(whole)).toBe(true);
        if (encoding === "br") bytes += compressed.length;
      }
      expect(plain.headers.get("content-encoding")).toBe(null);
      const tag = small.headers.get("etag")!;
      const again = await ask({ "if-none-match": `W/${tag}` });
      expect([again.status, (await again.bytes()).length]).toEqual([304, 0]);
      expect((await ask({ "if-none-match": '"another"' })).status).toBe(200);
      expect(small.headers.get("cache-control")).toBe(
        path.includes("ui") ? "public, max-age=31536000, immutable" : "no-cache",
      );
    }
    expect(bytes).toBeLessThan(600_000);
  });
});

/** What really answers: every described operation is called, and must not be a 404 for the path or a 405. */
async function routesOf(running: Troupe): Promise<string[]> {
  const { paths } = resolved((await (await running.fetch("/docs/json")).json()) as Document);
  const found: string[] = [];
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of Object.keys(methods)) {
      const response = await running.fetch(path.replace("{id}", "x"), { method: method.toUpperCase() });
      const text = await response.text();
      if (response.status !== 405 && !text.includes("There is nothing at")) found.push(`${method} ${path}`);
    }
  }
  return found.sort();
}
