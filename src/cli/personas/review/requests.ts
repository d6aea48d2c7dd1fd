/** What each provider is sent differently, and what a call costs at most: of one plain question, on both sides. */

import type { Config } from "../../../config/config.ts";
import { renderBodies } from "../../../http/render.ts";
import { systemClock } from "../../../lib/time/clock.ts";
import { boundsOf, CallPrices } from "../../../operate/suites/test-cost.ts";
import type { Persona } from "../../../personas/persona.ts";
import type { RequestReview } from "../../../personas/review/report.ts";
import { changesBetween } from "../../../personas/suites/recording.ts";
import { ApiError } from "../../../protocols/errors.ts";
import { providers } from "../../../providers/registry.ts";
import { Accounts, usualConfig } from "../../../upstream/accounts.ts";
import { MediaFetcher } from "../../../upstream/media.ts";

/** Bytes of a token, as costs are estimated before a call. */
const bytesPerToken = 3;
/** A line or two. */
const maxChanges = 2;

type Rendered = Awaited<ReturnType<typeof renderBodies>>;

export class Requests {
  readonly #accounts: Accounts;
  readonly #prices: CallPrices;
  readonly #tools = { media: new MediaFetcher(), clock: systemClock };

  /** Providers that are not set up are taken as they would be by their key alone: a pull request's checks have no keys. */
  constructor(config: Config) {
    const known = new Set(config.providers.map(({ name }) => name));
    const usual = providers.flatMap((one) => (known.has(one.name) ? [] : (usualConfig(one) ?? [])));
    this.#accounts = new Accounts([...config.providers, ...usual], providers);
    this.#prices = new CallPrices(config, this.#accounts);
  }

  async review(before: Persona | undefined, after: Persona | undefined) {
    const [old, now] = [await this.#render(before), await this.#render(after)];
    const prices = { before: this.#priceOf(before, old), after: this.#priceOf(after, now) };
    return {
      requests: before === undefined || after === undefined ? [] : changesOf(old, now),
      price: {
        ...(prices.before !== undefined && { before: prices.before }),
        ...(prices.after !== undefined && { after: prices.after }),
      },
    };
  }

  /** @returns why the question is refused, where it is */
  async #render(persona: Persona | undefined): Promise<Rendered | string | undefined> {
    if (persona === undefined) return undefined;
    const needed = [...persona.variables].filter(([, { required }]) => required);
    const variables = Object.fromEntries(needed.map(([name, { enum: words }]) => [name, words?.[0] ?? `<${name}>`]));
    const request = { messages: [{ role: "user", content: "Hello!" }], ...(needed.length > 0 && { variables }) };
    try {
      return await renderBodies(this.#tools, this.#accounts, { persona, request }, new AbortController().signal);
    } catch (error) {
      if (error instanceof ApiError) return error.message;
      throw error;
    }
  }

  #priceOf(persona: Persona | undefined, rendered: Rendered | string | undefined): number | undefined {
    if (persona === undefined || typeof rendered !== "object") return undefined;
    const { inputBytes, maxOutputTokens } = boundsOf(rendered.composed);
    const added = (persona.knowledge?.tokens ?? 0) + (persona.lorebook?.tokenBudget ?? 0);
    return this.#prices.most(persona.targets[0], inputBytes + bytesPerToken * added, maxOutputTokens);
  }
}

function changesOf(old: Rendered | string | undefined, now: Rendered | string | undefined): RequestReview[] {
  if (typeof old !== "object" || typeof now !== "object") return [];
  const models = [...new Set([...now.bodies.keys(), ...old.bodies.keys()])];
  return models.map((model): RequestReview => {
    if (!old.bodies.has(model)) return { model, change: "new", changes: problemOf(now.bodies.get(model)) };
    if (!now.bodies.has(model)) return { model, change: "gone", changes: [] };
    const [before, after] = [old.bodies.get(model), now.bodies.get(model)];
    if (Bun.deepEquals(before, after, true)) return { model, change: "same", changes: [] };
    if (typeof before !== "object" || typeof after !== "object")
      return { model, change: "changed", changes: problemOf(after) };
    const changes = changesBetween(before.body, after.body);
    const shown = changes.slice(0, maxChanges);
    const more = changes.length - shown.length;
    return { model, change: "changed", changes: more > 0 ? [...shown, "and more"] : shown };
  });
}

const problemOf = (body: unknown): string[] => (typeof body === "string" ? [`nothing is sent: ${body}`] : []);
