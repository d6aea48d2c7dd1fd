/** Calls a server's chat completions as any client does. */
import { isObject, type JsonObject, objectOf, parseJson } from "../../lib/json/json.ts";
import { SseParser } from "../../lib/streams/sse.ts";
import { suggest } from "../../lib/text/suggest.ts";
import { StreamFold } from "../../protocols/chat/fold.ts";
import type { ChunkBody, CompletionBody } from "../../protocols/chat/schema.ts";
import { CommandError } from "../context.ts";

/** A server, and the key to call it with. */
export type Server = {
  /** Without a trailing slash. */
  readonly url: string;
  readonly key: string;
  /** For each `fetch`. */
  readonly fetchOptions?: { readonly unix?: string; readonly tls?: { readonly rejectUnauthorized: boolean } };
};

/** A persona, or a provider's model. */
export type ChatModel = {
  readonly id: string;
  /** Where its calls go. */
  readonly base: string;
  readonly greeting?: string;
};

type ChunkReader = {
  chunk(chunk: ChunkBody): void;
  /** A comment of the stream, such as that a tool is called. */
  comment(text: string): void;
};

/** Both surfaces of one address, else the only one. */
const bases = ["/v1", "/gateway/v1"];

export class ChatClient {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  /** @throws CommandError where there is no such model */
  async find(id: string): Promise<ChatModel> {
    for (const base of bases) {
      const path = `${base}/models/${id.split("/").map(encodeURIComponent).join("/")}`;
      const answer = await this.#fetch(path);
      if (answer.status === 404) {
        await answer.body?.cancel();
        continue;
      }
      if (answer.status !== 200) throw await refusal(answer);
      const greeting = base === "/v1" ? await this.#greetingOf(id, objectOf(await answer.json())) : undefined;
      return { id, base, ...(greeting !== undefined && { greeting }) };
    }
    const guess = suggest(id, await this.models());
    const advice = guess === undefined ? "" : ` Did you mean '${guess}'?`;
    throw new CommandError(
      `There is no persona or model '${id}', its provider is not set up, or the key may not use it.${advice}`,
    );
  }

  /** Ids of all personas and models that are listed. */
  async models(): Promise<string[]> {
    const lists = await Promise.all(
      bases.map(async (base) => {
        const answer = await this.#fetch(`${base}/models`);
        const data = answer.status === 200 ? objectOf(await answer.json())?.["data"] : undefined;
        return Array.isArray(data)
          ? data.flatMap((one) => (typeof one?.id === "string" ? [one.id as string] : []))
          : [];
      }),
    );
    return [...new Set(lists.flat())];
  }

  /** Asks without a stream. @returns the answer as it came @throws CommandError */
  async answer({ base }: ChatModel, body: JsonObject, signal: AbortSignal): Promise<CompletionBody> {
    const answer = await this.#fetch(`${base}/chat/completions`, { body: JSON.stringify(body), signal });
    if (answer.status !== 200) throw await refusal(answer);
    return (await answer.json()) as CompletionBody;
  }

  /**
   * Asks for a stream, and gives its chunks as they come.
   * @returns the whole answer, with what had come where `signal` aborted @throws CommandError
   */
  async stream(model: ChatModel, body: JsonObject, signal: AbortSignal, reader: ChunkReader): Promise<CompletionBody> {
    const fold = new StreamFold();
    const asked = { ...body, stream: true, stream_options: { include_usage: true } };
    try {
      const answer = await this.#fetch(`${model.base}/chat/completions`, { body: JSON.stringify(asked), signal });
      if (answer.status !== 200) throw await refusal(answer);
      const parser = new SseParser();
      for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) {
        for (const [, comment] of new TextDecoder().decode(bytes).matchAll(/^: (calling .+)$/gm))
          reader.comment(comment!);
        for (const { data } of parser.push(bytes)) {
          const chunk = objectOf(parseJson(data));
          if (chunk === undefined) continue;
          if (isObject(chunk["error"])) throw new CommandError(errorLine(200, chunk["error"], undefined));
          fold.push([chunk as ChunkBody]);
          reader.chunk(chunk as ChunkBody);
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error instanceof CommandError ? error : lost(error as Error);
    }
    return fold.result();
  }

  /** The list of models has no greetings: the admin API has, where the key may use it. */
  async #greetingOf(id: string, model: JsonObject | undefined): Promise<string | undefined> {
    if (typeof model?.["greeting"] === "string") return model["greeting"];
    const answer = await this.#fetch(`/admin/v1/personas/${id.split("/").map(encodeURIComponent).join("/")}`);
    const persona = answer.status === 200 ? objectOf(await answer.json()) : undefined;
    return typeof persona?.["greeting"] === "string" ? persona["greeting"] : undefined;
  }

  async #fetch(path: string, init: { readonly body?: string; readonly signal?: AbortSignal } = {}): Promise<Response> {
    const { url, key, fetchOptions } = this.#server;
    try {
      return await fetch(url + path, {
        ...init,
        ...fetchOptions,
        method: init.body === undefined ? "GET" : "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        redirect: "manual",
      });
    } catch (error) {
      if (init.signal?.aborted === true) throw error;
      throw new CommandError(`The server at ${url} can't be reached: ${(error as Error).message}`);
    }
  }
}

const lost = ({ message }: Error) => new CommandError(`The answer broke off: ${message}`);

/** The server's own words. */
export async function refusal(answer: Response): Promise<CommandError> {
  const text = await answer.text();
  const error = objectOf(parseJson(text))?.["error"];
  return new CommandError(errorLine(answer.status, isObject(error) ? error : {}, answer.headers.get("retry-after")));
}

/** One line for an error, with what to do about it. */
function errorLine(status: number, { message, code }: JsonObject, retryAfter: string | null | undefined): string {
  const said =
    typeof message === "string" ? message.replaceAll(/\s+/g, " ") : `The server answered with status ${status}.`;
  if (status === 401) return `${said} Give a key by --key or TROUPE_KEY.`;
  if (retryAfter != null) return `${said} Try again in ${retryAfter} s.`;
  return typeof code === "string" && code !== "" && status === 200 ? `The answer broke off: ${said}` : said;
}
