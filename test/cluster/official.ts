/** Official clients behind HAProxy, with an id and their own retries: what they hand to their caller. */
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { Random } from "../helpers/random.ts";
import { now } from "./cluster.ts";
import type { Attempt } from "./history.ts";

export type OfficialWork = {
  readonly id: string;
  readonly kind: "openai whole" | "openai stream" | "anthropic whole" | "anthropic stream";
  readonly content: string;
};

const timeout = 40_000;

export class OfficialClients {
  readonly attempts: Attempt[] = [];
  readonly works: OfficialWork[] = [];
  readonly #random: Random;
  readonly #openai: OpenAI;
  readonly #anthropic: Anthropic;

  /** @param url of the balancer @param maxRetries of each client */
  constructor(url: string, key: string, random: Random, maxRetries = 6) {
    this.#random = random;
    this.#openai = new OpenAI({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries, timeout });
    this.#anthropic = new Anthropic({ baseURL: `${url}/gateway`, apiKey: key, maxRetries, timeout });
  }

  /** Some new call, or one of the last ones again, as a caller does that lost its answer. */
  async act(): Promise<void> {
    const random = this.#random;
    const isNew = this.works.length === 0 || random.chance(60);
    const work = isNew ? this.#newWork() : this.works[Math.max(0, this.works.length - 1 - random.below(6))]!;
    if (isNew) this.works.push(work);
    await this.ask(work);
    await Bun.sleep(random.below(300));
  }

  #newWork(): OfficialWork {
    const random = this.#random;
    const kind = random.pick(["openai whole", "openai stream", "anthropic whole", "anthropic stream"] as const);
    const id = `sdk${this.works.length}`;
    return { id, kind, content: `${id} ${random.pick([1, 4, 12])} ${random.pick([1, 30, 120])}` };
  }

  /** @returns whether the caller has the whole answer */
  async ask(work: OfficialWork): Promise<boolean> {
    const { id } = work;
    const startedAt = now();
    const said = { text: "", isWhole: false };
    let status = 200;
    let told = "";
    try {
      await this.#run(work, said);
    } catch (error) {
      status = (error as { status?: number }).status ?? 0;
      told = String(error);
    }
    const isComplete = said.isWhole && status === 200;
    const text = isComplete ? said.text : said.text || told;
    this.attempts.push({
      ...{ id, kind: "sdk", node: -1, startedAt, endedAt: now(), status, isComplete, hasLeft: false, text },
    });
    return isComplete;
  }

  async #run({ id, kind, content }: OfficialWork, said: { text: string; isWhole: boolean }): Promise<void> {
    const asked = { model: "up/m", messages: [{ role: "user" as const, content }] };
    const options = { headers: { "service-request-id": id } };
    switch (kind) {
      case "openai whole": {
        const { choices } = await this.#openai.chat.completions.create(asked, options);
        said.text = choices[0]!.message.content ?? "";
        said.isWhole = choices[0]!.finish_reason === "stop";
        return;
      }
      case "openai stream":
        for await (const { choices } of await this.#openai.chat.completions.create(
          { ...asked, stream: true },
          options,
        )) {
          said.text += choices[0]?.delta.content ?? "";
          said.isWhole ||= choices[0]?.finish_reason === "stop";
        }
        return;
      case "anthropic whole": {
        const message = await this.#anthropic.messages.create({ ...asked, max_tokens: 1_000 }, options);
        said.text = message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
        said.isWhole = message.stop_reason === "end_turn";
        return;
      }
      case "anthropic stream": {
        const events = await this.#anthropic.messages.create({ ...asked, max_tokens: 1_000, stream: true }, options);
        for await (const event of events) {
          if (event.type === "content_block_delta" && event.delta.type === "text_delta") said.text += event.delta.text;
          said.isWhole ||= event.type === "message_stop";
        }
      }
    }
  }
}
