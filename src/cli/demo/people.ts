/** Who calls in a demonstration: keys with their plans, tags and budgets, and what operators did. */

import type { Services } from "../../call/services.ts";
import { endingExample, exampleNames as names } from "../../facts/examples.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { PersonaId } from "./folder.ts";

type Person = {
  readonly name: string;
  readonly tier: "free" | "pro" | "enterprise";
  readonly tags: readonly string[];
  readonly perMinute?: number;
  /** Its share of all calls. */
  readonly weight: number;
  readonly client: string;
  /** What it asks for, by share: personas, and models as `<provider>/<model>`. */
  readonly asks: Readonly<Record<string, number>>;
  /** Part of its budget of this month that is used. */
  readonly used?: number;
};

const personas = (weights: Partial<Record<PersonaId, number>>): Readonly<Record<string, number>> => weights;

export const people: readonly Person[] = [
  {
    ...{
      name: "website",
      tier: "enterprise",
      perMinute: 1200,
      tags: ["shop"],
      weight: 44,
      client: "openai-node",
      used: 0.93,
    },
    asks: personas({ "acme/support": 80, "acme/triage": 20 }),
  },
  {
    ...{ name: "mobile app", tier: "pro", tags: ["shop"], weight: 22, client: "okhttp", used: 0.55 },
    asks: personas({ "acme/support": 70, "studio/translator": 30 }),
  },
  {
    ...{ name: "nightly jobs", tier: "pro", tags: ["batch", "data"], weight: 16, client: "openai-python", used: 0.71 },
    asks: { "acme/triage": 30, [names.openaiSmall]: 50, [`openai/${endingExample}`]: 15, "mistral/acme-tuned-7b": 5 },
  },
  {
    ...{ name: "ana's laptop", tier: "pro", tags: ["engineering"], weight: 9, client: "claude-cli" },
    asks: { [names.anthropic]: 75, [names.anthropicSmall]: 15, "acme/release-notes": 10 },
  },
  {
    ...{ name: "editors", tier: "pro", tags: ["studio"], weight: 7, client: "langchain", used: 0.38 },
    asks: personas({ "studio/editor": 75, "studio/translator": 25 }),
  },
  {
    name: "trial account",
    tier: "free",
    tags: [],
    weight: 2,
    client: "curl",
    asks: personas({ "studio/translator": 1 }),
  },
];

export type KeyedPerson = Person & { readonly id: string; readonly secret: string };

/** Makes the keys, and budgets too large to be met: `settleBudgets` gives them their sizes once the ledger is full. */
export async function makeMembers({ keys, store, clock }: Services): Promise<KeyedPerson[]> {
  const members: KeyedPerson[] = [];
  for (const person of people) {
    const { name, tier, tags, perMinute } = person;
    const { secret, key } = await keys.create({ name, tier, tags, ...(perMinute !== undefined && { perMinute }) });
    members.push({ ...person, secret, id: key.id });
    if (person.used !== undefined)
      await store.budgets.set({ scope: `key:${key.id}`, period: "month", limit: 1e12, updatedAt: clock.now() }, true);
  }
  await store.budgets.set({ scope: "tag:shop", period: "day", limit: 250_000_000, updatedAt: clock.now() }, true);
  await keys.create({ name: "old prototype", tier: "free", expiresAt: clock.now() + 5 * dayMs });
  return members;
}

export async function settleBudgets(
  { store, budgets, clock }: Services,
  members: readonly KeyedPerson[],
): Promise<void> {
  const span = new Date(clock.now()).toISOString().slice(0, 7);
  for (const { id, used } of members) {
    if (used === undefined) continue;
    const scope = `key:${id}`;
    const [spending] = await store.budgets.spending([{ scope, span }]);
    const limit = Math.max(1_000_000, Math.round((spending?.spent ?? 0) / used));
    await store.budgets.set({ scope, period: "month", limit, updatedAt: clock.now() });
  }
  await budgets.load();
}

/** Writes what operators did in the last weeks. */
export async function writeAudit({ store, clock }: Services, members: readonly KeyedPerson[]): Promise<void> {
  const [website, , jobs] = members;
  const acts: readonly [
    daysAgo: number,
    actor: string,
    act: string,
    subject: string,
    before: unknown,
    after: unknown,
  ][] = [
    [29, "user:ana@acme.example", "key.create", website!.id, null, { name: "website", tier: "pro" }],
    [27, "user:ana@acme.example", "key.update", website!.id, { tier: "pro" }, { tier: "enterprise", per_minute: 1200 }],
    [20, "cli:ben", "budget.set", `key:${jobs!.id}/month`, null, { period: "month", dollars: 400 }],
    [12, "user:cho@acme.example", "key.create", members[4]!.id, null, { name: "editors", tier: "pro" }],
    [3, "cli:ben", "budget.set", `key:${website!.id}/month`, { dollars: 500 }, { dollars: 800 }],
    [2, "user:ana@acme.example", "persona.save", "acme/support", null, { note: "shorter answers, canary on mistral" }],
  ];
  for (const [daysAgo, actor, act, subject, before, after] of acts) {
    const at = clock.now() - daysAgo * dayMs;
    const id = `act_${Bun.randomUUIDv7("hex", at).replaceAll("-", "")}`;
    const json = (value: unknown) => (value === null ? null : JSON.stringify(value));
    await store.audit.insert({ id, at, actor, act, subject, before: json(before), after: json(after) });
  }
}
