/** A month of calls for the ledger: by day and night, on weekdays and weekends, with their failures, and what they cost by the price list. */

import type { Services } from "../../call/services.ts";
import { endingExample, exampleModels as models, exampleNames as names } from "../../facts/examples.ts";
import { dayMs, hourMs } from "../../lib/time/duration.ts";
import type { Persona } from "../../personas/persona.ts";
import type { LedgerLine } from "../../store/contract/usage.ts";
import type { VariantOutcome } from "../../store/contract/variants.ts";
import type { AttemptVariant } from "../../usage/attempt.ts";
import { countedOf, noTokens } from "../../usage/tokens/counts.ts";
import { attemptVariant } from "../../usage/variants/stops.ts";
import type { KeyedPerson } from "./people.ts";
import type { Random } from "./random.ts";

const days = 31;
/** From then on the canary of acme/support has stopped itself, and all calls go to the others. */
const failuresToStop = 10;
/** Lines that are added at once. */
const batch = 2_000;

/** The first model that a persona's calls go to, and the one that takes over. */
const routes: Readonly<Record<string, readonly [first: string, second?: string]>> = {
  "acme/support": [names.anthropic, names.openai],
  "acme/triage": [names.openaiSmall, "mistral/mistral-medium-latest"],
  "acme/release-notes": [`openai/${endingExample}`],
  "studio/editor": [names.anthropic, names.openai],
  "studio/translator": ["mistral/mistral-medium-latest", names.openaiSmall],
};

/** Milliseconds to the first token, tokens that are written in a second, and the usual size of a call. */
const habits: Readonly<Record<string, readonly [first: number, perSecond: number, input: number, output: number]>> = {
  [models.anthropic]: [780, 70, 2_400, 320],
  [models.anthropicSmall]: [420, 140, 1_500, 200],
  [models.openai]: [950, 80, 2_400, 340],
  [models.openaiSmall]: [380, 150, 900, 120],
  [endingExample]: [410, 110, 1_800, 260],
  "mistral-medium-latest": [340, 120, 700, 180],
};
/** Wire formats of providers that are not asked in chat completions. */
const formats: Readonly<Record<string, string>> = { anthropic: "messages" };
const unknownHabits = [500, 60, 1_200, 200] as const;

type MonthTools = {
  readonly services: Services;
  readonly members: readonly KeyedPerson[];
  readonly random: Random;
  /** Epoch milliseconds at which the month ends. */
  readonly now: number;
  /** Version of acme/support before it was edited, and when that was. */
  readonly before: { readonly version: string; readonly until: number };
};

type Call = { readonly at: number; readonly member: KeyedPerson; readonly model: string; readonly requestId: string };

export class Month {
  readonly #tools: MonthTools;
  readonly #now: number;
  /** Begin of the two hours in which a provider failed, yesterday. */
  readonly #outage: number;
  readonly #weights: Readonly<Record<string, number>>;
  readonly #personas: ReadonlyMap<string, Persona>;
  #canaryFailures = 0;
  #last: LedgerLine | undefined;

  constructor(tools: MonthTools) {
    this.#tools = tools;
    this.#now = tools.now;
    this.#weights = Object.fromEntries(tools.members.map(({ name, weight }) => [name, weight]));
    this.#personas = new Map(tools.services.personas.list().map((persona) => [persona.id, persona]));
    this.#outage = Math.floor(this.#now / dayMs) * dayMs - dayMs + 13 * hourMs;
  }

  /** @param count number of calls; those that another model took over have a line more */
  async fill(count: number): Promise<void> {
    const { services } = this.#tools;
    const times = this.#times(count);
    let lines: LedgerLine[] = [];
    for (const at of times) {
      lines.push(...this.#call(at));
      if (lines.length < batch) continue;
      await services.store.ledger.append(lines);
      lines = [];
    }
    await services.store.ledger.append(lines);
    await services.variantStops.load();
  }

  /** @returns when calls began: most of them in working hours, and fewer at weekends */
  #times(count: number): Float64Array {
    const { random } = this.#tools;
    const times = new Float64Array(count);
    for (let at = 0; at < count; ) {
      const time = this.#now - 60_000 - random.next() * days * dayMs;
      const moment = new Date(time);
      const hour = moment.getUTCHours() + moment.getUTCMinutes() / 60;
      const daily = 0.18 + 0.82 * Math.exp(-(((hour - 13.5) / 4.5) ** 2));
      const weekly = [0.4, 1, 1, 0.96, 0.98, 0.85, 0.45][moment.getUTCDay()]!;
      const growth = 0.7 + (0.3 * (time - this.#now + days * dayMs)) / (days * dayMs);
      if (random.next() < daily * weekly * growth) {
        times[at] = Math.floor(time);
        at += 1;
      }
    }
    return times.sort();
  }

  #call(at: number): LedgerLine[] {
    const { random, members } = this.#tools;
    const name = random.pick(this.#weights);
    const member = members.find((one) => one.name === name)!;
    const model = random.pick(member.asks);
    const route = routes[model] ?? [model];
    const requestId = `req_${Bun.randomUUIDv7("hex", at).replaceAll("-", "")}`;
    const base = this.#base({ at, member, model, requestId });
    const chance = random.next();
    if (chance < 0.006) return [this.#ended(base, undefined, "refused", "rate_limit", 429)];
    if (chance < 0.012) return [this.#ended(base, route[0], "refused", "invalid_request", 400)];
    if (chance < 0.016 && this.#last !== undefined) return [this.#replay(base, this.#last)];
    if (chance < 0.021) return [this.#ended(base, route[0], "abandoned", null, null)];
    const isCanary = base.variant === "canary";
    const first = isCanary ? "mistral/mistral-medium-latest" : route[0];
    const isDown = first.startsWith("mistral/") && at >= this.#outage && at < this.#outage + 2 * hourMs;
    const fails = isDown || random.next() < (isCanary ? 0.4 : 0.009);
    if (!fails) return [this.#finished(base, first)];
    const reason = isDown ? "server_error" : random.one(["timeout", "rate_limit", "server_error"] as const);
    const status = { server_error: 503, timeout: 504, rate_limit: 429 }[reason];
    const [, second] = route;
    if (isCanary) this.#canaryFailures += 1;
    if (isCanary || second === undefined) return [this.#ended(base, first, "broken", reason, status)];
    // Another model takes over; its attempt belongs to the same request.
    const left = this.#ended({ ...base, calls: undefined }, first, "broken", reason, status);
    return [left, { ...this.#finished({ ...base, at: at + left.totalMs }, second), attempt: 2 }];
  }

  #base({ at, member, model, requestId }: Call): Base {
    const { random, before } = this.#tools;
    const persona = this.#personas.get(model);
    const isOld = model === "acme/support" && at < before.until;
    const variants = isOld ? [] : (persona?.variants ?? []);
    const canary = variants.find(({ name }) => name === "canary");
    const isCanary = canary !== undefined && random.next() < 0.2 && this.#canaryFailures < failuresToStop;
    const variant = isCanary ? canary : variants[0];
    const calls = persona && variant ? attemptVariant(persona, variant).calls : undefined;
    return {
      ...{ requestId, at, keyId: member.id, tier: member.tier, tags: member.tags, model, client: member.client, calls },
      surface: persona === undefined ? "gateway" : "orchestrator",
      format: member.client === "claude-cli" ? "messages" : "chat",
      persona: persona?.id ?? null,
      personaVersion: isOld ? before.version : (persona?.version ?? null),
      variant: variant?.name ?? null,
      user: persona === undefined ? null : `user-${random.between(1, 400)}`,
    };
  }

  #finished(base: Base, id: string): LedgerLine {
    const { random, services } = this.#tools;
    const [provider, model] = partsOf(id);
    const [first, perSecond, usualInput, usualOutput] = habits[model] ?? unknownHabits;
    const [input, output] = [random.around(usualInput), random.around(usualOutput)];
    const cached = random.next() < 0.45 ? Math.floor(input * 0.7) : 0;
    const counted = countedOf({
      ...{ prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
      prompt_tokens_details: { cached_tokens: cached },
    });
    const isSlow = random.next() < 0.015;
    const firstTokenMs = random.around(first) * (isSlow ? 9 : 1);
    const target = { provider, model, dialect: provider, baseUrl: "http://127.0.0.1", isLocal: false, isListed: true };
    return {
      ...this.#line(base, id, "answered"),
      ...services.live.prices.price(target, counted, undefined, base.at),
      ...{ ended: "finished", failure: null, status: 200, counted: "upstream", tokens: counted.tokens, firstTokenMs },
      totalMs: firstTokenMs + Math.round((output * 1000) / perSecond),
    };
  }

  #ended(
    base: Base,
    id: string | undefined,
    ended: LedgerLine["ended"],
    failure: LedgerLine["failure"],
    status: number | null,
  ): LedgerLine {
    return {
      ...this.#line(base, id, ended === "broken" ? "failed" : undefined),
      ...{ ended, failure, status, ...errorWords[failure ?? ""] },
      ...(ended === "abandoned" && { counted: "unknown", cost: null, priceSource: "unknown" }),
      totalMs: failure === "timeout" ? 30_000 : this.#tools.random.around(id === undefined ? 2 : 400),
    };
  }

  #replay(base: Base, { requestId, status }: LedgerLine): LedgerLine {
    return { ...this.#ended(base, undefined, "replayed", null, status), callOf: requestId };
  }

  #line({ calls, ...base }: Base, id: string | undefined, outcome: VariantOutcome | undefined): LedgerLine {
    const [provider, model] = id === undefined ? [null, null] : partsOf(id);
    const line: LedgerLine = {
      ...{ ...base, attempt: 1, provider, upstreamModel: model },
      upstreamFormat: provider && (formats[provider] ?? "chat"),
      ...{ upstreamKey: null, upstreamEndpoint: null, ended: "finished", failure: null, status: 200, callOf: null },
      ...{ errorCode: null, errorText: null, serviceTier: null, metadata: null, counted: "none", tokens: noTokens },
      ...{
        cost: 0,
        costs: null,
        priceSource: "none",
        priceDate: null,
        priceNote: null,
        firstTokenMs: null,
        totalMs: 0,
      },
      ...(calls !== undefined && outcome !== undefined && { variantCall: calls[outcome] }),
    };
    this.#last = line;
    return line;
  }
}

/** What those who failed said, by the reason. */
const errorWords: Readonly<Record<string, Partial<Pick<LedgerLine, "errorCode" | "errorText">>>> = {
  rate_limit: {
    errorCode: "rate_limit_exceeded",
    errorText: "Rate limit reached on requests per minute (RPM): Limit 500, Used 500, Requested 1.",
  },
  invalid_request: { errorCode: "invalid_request_error", errorText: "messages[2].content" },
  timeout: { errorCode: "upstream_timeout", errorText: "The provider did not answer within 30 s." },
  server_error: { errorCode: "overloaded_error" },
};

/** The parts of a line that are known before the call is sent, and what is counted of its variant. */
type Base = Pick<
  LedgerLine,
  | ("requestId" | "at" | "keyId" | "tags" | "model" | "client" | "surface" | "format" | "user")
  | ("persona" | "personaVersion" | "variant")
> & { readonly tier: string; readonly calls: AttemptVariant["calls"] };

function partsOf(id: string): [provider: string, model: string] {
  const slash = id.indexOf("/");
  return [id.slice(0, slash), id.slice(slash + 1)];
}
