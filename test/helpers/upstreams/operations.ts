/**
 * Stand-ins for what providers have beside completions. OpenAI's refuses what the real one refuses; the other is Gemini's.
 * Sources: https://platform.openai.com/docs/api-reference/embeddings, …/images, …/audio, …/moderations,
 * https://ai.google.dev/api/embeddings
 */

export type BytesRequest = {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly signal: AbortSignal;
};

/** Records requests as bytes. */
export class BytesServer implements Disposable {
  readonly requests: BytesRequest[] = [];
  readonly #server: ReturnType<typeof Bun.serve>;

  constructor(answer: (request: BytesRequest) => Response | Promise<Response>) {
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      idleTimeout: 0,
      maxRequestBodySize: 2 ** 40,
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        const recorded = {
          method: request.method,
          path: pathname + search,
          headers: request.headers,
          bytes: (await request.bytes()) as Uint8Array<ArrayBuffer>,
          signal: request.signal,
        };
        this.requests.push(recorded);
        return answer(recorded);
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  get last(): BytesRequest {
    const request = this.requests.at(-1);
    if (request === undefined) throw new Error("no request has reached the upstream");
    return request;
  }

  [Symbol.dispose](): void {
    this.#server.stop(true);
  }
}

/** A vector that tells which text it is of. */
export const vectorOf = (text: string): number[] => [text.length, Math.fround(text.charCodeAt(0) / 3), -0.5];

export const base64Of = (vector: readonly number[]) => Buffer.from(new Float32Array(vector).buffer).toString("base64");

const refusal = (status: number, message: string, param: string | null = null) =>
  Response.json({ error: { message, type: "invalid_request_error", param, code: null } }, { status });

/** @param options.form the only form of vectors that it knows */
export function openAiOperations(options: { form?: "float" | "base64" } = {}) {
  return async ({ method, path, headers, bytes }: BytesRequest): Promise<Response> => {
    if (headers.get("authorization") !== "Bearer key-of-openai") return refusal(401, "Incorrect API key provided.");
    if (method !== "POST") return refusal(405, "Not allowed.");
    const type = headers.get("content-type") ?? "";
    if (type.startsWith("multipart/form-data")) {
      const form = await new Response(bytes, { headers: { "content-type": type } }).formData();
      const file = form.get("file") ?? form.get("image");
      if (!(file instanceof Blob)) return refusal(400, "you must provide a file", "file");
      const hash = new Bun.CryptoHasher("sha256").update(await file.bytes()).digest("hex");
      return Response.json({ text: `${form.get("model")} ${file.size} ${hash}` });
    }
    const body = JSON.parse(new TextDecoder().decode(bytes));
    if (String(body.model).includes("/")) return refusal(404, `The model '${body.model}' does not exist`, "model");
    switch (path) {
      case "/v1/embeddings": {
        const texts: unknown[] = typeof body.input === "string" ? [body.input] : body.input;
        const form = options.form ?? body.encoding_format ?? "float";
        const data = texts.map((text, index) => {
          const vector = vectorOf(String(text));
          return { object: "embedding", index, embedding: form === "base64" ? base64Of(vector) : vector };
        });
        return Response.json({ object: "list", data, model: body.model, usage: { prompt_tokens: 7, total_tokens: 7 } });
      }
      case "/v1/images/generations":
        return Response.json({
          created: 1,
          data: [{ b64_json: "aGk=" }],
          usage: { input_tokens: 5, output_tokens: 9, total_tokens: 14 },
        });
      case "/v1/audio/speech": {
        const sound = Buffer.alloc(700_000, body.input);
        return new Response(
          new ReadableStream({
            start(controller) {
              for (let at = 0; at < sound.length; at += 64_000) controller.enqueue(sound.subarray(at, at + 64_000));
              controller.close();
            },
          }),
          { headers: { "content-type": "audio/mpeg", "set-cookie": "a=b" } },
        );
      }
      case "/v1/moderations":
        return Response.json({
          id: "modr-1",
          model: body.model,
          results: [{ flagged: false, categories: {}, category_scores: {} }],
        });
      case "/v1/rerank":
        return Response.json({ results: [{ index: 1, relevance_score: 0.9 }] });
      default:
        return refusal(404, `Invalid URL (POST ${path})`);
    }
  };
}

/** https://ai.google.dev/api/embeddings#method:-models.batchembedcontents */
export function googleEmbedder({ path, headers, bytes }: BytesRequest): Response {
  const refuse = (code: number, status: string, message: string) =>
    Response.json({ error: { code, message, status } }, { status: code });
  if (headers.get("x-goog-api-key") !== "key-of-google") return refuse(400, "INVALID_ARGUMENT", "API key not valid.");
  const model = /^\/v1beta\/(models\/[\w.-]+):batchEmbedContents$/.exec(path)?.[1];
  if (model === undefined) return refuse(404, "NOT_FOUND", "no such method");
  const { requests, ...more } = JSON.parse(new TextDecoder().decode(bytes));
  if (Object.keys(more).length > 0) return refuse(400, "INVALID_ARGUMENT", `Unknown name "${Object.keys(more)[0]}"`);
  if (requests.length > 100) return refuse(400, "INVALID_ARGUMENT", "at most 100 requests can be in one batch");
  for (const { model: own, content, ...rest } of requests) {
    if (own !== model) return refuse(400, "INVALID_ARGUMENT", "model must match");
    if (typeof content.parts[0].text !== "string") return refuse(400, "INVALID_ARGUMENT", "text");
    for (const name of Object.keys(rest)) {
      if (!["outputDimensionality", "taskType", "title"].includes(name))
        return refuse(400, "INVALID_ARGUMENT", `Unknown name "${name}"`);
    }
  }
  return Response.json({
    embeddings: requests.map(({ content }: { content: { parts: { text: string }[] } }) => ({
      values: vectorOf(content.parts[0]!.text),
    })),
  });
}
