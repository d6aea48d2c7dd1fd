/** A Troupe between a real client and a model that calls its tools, in the true format of any family of upstreams. */

import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";
import {
  jsonResponse,
  type RecordedRequest,
  type UpstreamHandler,
  UpstreamServer,
} from "../helpers/upstream-server.ts";
import {
  type AgentFamilyName,
  type AgentRequest,
  agentFamilies,
  agentFamilyOf,
  type Turn,
} from "../helpers/upstreams/agent.ts";
import { anthropicKey, anthropicUpstream } from "../helpers/upstreams/anthropic.ts";
import { breaks, brokenStream } from "../helpers/upstreams/broken.ts";
import { basePath, strictCompatible } from "../helpers/upstreams/compatible.ts";
import { googleKey, strictGemini } from "../helpers/upstreams/google.ts";
import { strictResponses } from "../helpers/upstreams/responses.ts";

/** A model of each family. */
export const models = {
  chat: "groq/openai/gpt-oss-120b",
  anthropic: "anthropic/claude-sonnet-4-6",
  google: "google/gemini-3-flash-preview",
  responses: "openai/gpt-5.9",
} as const satisfies Record<AgentFamilyName, string>;
export const familyNames = Object.keys(models) as AgentFamilyName[];
export const persona = "troupe/tutor";
/** Names by which Codex sends its tools within the input, for models of other families. */
export const codexNames = {
  "gpt-6-sol": models.chat,
  "gpt-6-luna": models.anthropic,
  "gpt-5.6-sol": models.google,
  "gpt-5.6-luna": persona,
} as const;

const openaiKey = "sk-test";
const strict: Record<AgentFamilyName, (answer: () => Response) => UpstreamHandler> = {
  // OpenAI's models are asked for a translated call by chat completions, at the address of their Responses.
  chat: (answer) => (request) => {
    const isGroq = request.path.startsWith(basePath("groq"));
    return strictCompatible(isGroq ? "groq" : "openai", isGroq ? "key-of-groq" : openaiKey, answer)(request);
  },
  anthropic: (answer) => anthropicUpstream(answer),
  google: (answer) => strictGemini(answer),
  responses: (answer) => strictResponses("openai", openaiKey, answer),
};

export class Stage implements AsyncDisposable {
  /** What the model does in one request. */
  script: (request: AgentRequest) => Turn = () => ({ text: "ok" });
  /** What the upstreams answer beside models: counters, embeddings. */
  others: (request: RecordedRequest) => Response = ({ path }) => jsonResponse({ error: { message: path } }, 404);
  /** The family whose upstream takes anything, as a client of its own format sends it there untouched; others refuse what the real ones do. */
  native: AgentFamilyName | undefined;
  /** What reached the upstreams, as they read it; counters and the like left out. A stream breaks as its request says: `break after`. */
  asked: { readonly family: AgentFamilyName; readonly request: AgentRequest }[] = [];
  readonly #upstream = new UpstreamServer((request) => this.#answer(request));
  #troupe: Troupe | undefined;

  static async start(more: Pick<TroupeOptions, "personas" | "config"> = {}): Promise<Stage> {
    const stage = new Stage();
    const { url } = stage.#upstream;
    stage.#troupe = await Troupe.start({
      providers: {
        groq: { baseUrl: url + basePath("groq") },
        anthropic: { baseUrl: url, apiKey: anthropicKey },
        google: { baseUrl: url, apiKey: googleKey },
        openai: { baseUrl: `${url}/v1`, apiKey: openaiKey },
      },
      ...more,
      config: { aliases: { "claude-*": "anthropic/claude-*", ...codexNames }, ...more.config },
    });
    return stage;
  }

  get troupe(): Troupe {
    return this.#troupe!;
  }

  /** The last request that was in a family's own format. */
  get last(): RecordedRequest {
    return this.#upstream.requests.findLast((request) => agentFamilyOf(request) !== undefined)!;
  }

  async #answer(request: RecordedRequest): Promise<Response> {
    const name = agentFamilyOf(request);
    if (name === undefined) return this.others(request);
    const family = agentFamilies[name];
    let turn: Turn | undefined;
    const answer = () => {
      const read = family.read(request);
      this.asked.push({ family: name, request: read });
      turn = this.script(read);
      return family.answer(turn, read);
    };
    const answered = await (name === this.native ? answer() : strict[name](answer)(request));
    const broken = breaks.find((one) => request.text.includes(`break ${one}`));
    return broken && turn && "text" in turn ? brokenStream(answered, name, broken, turn.text.slice(0, 3)) : answered;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#troupe?.[Symbol.asyncDispose]();
    this.#upstream[Symbol.dispose]();
  }
}
