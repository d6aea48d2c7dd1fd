/** Acts on providers. */
import type { ProviderTested } from "../api/providers.ts";
import type { Services } from "../call/services.ts";
import type { BoundAccount } from "../upstream/accounts.ts";
import { membersOf } from "../upstream/pool/pools.ts";
import { type TestCallResult, testCall } from "../upstream/test-call.ts";
import { countedOf } from "../usage/tokens/counts.ts";
import { done, type Operator } from "./act.ts";

type Used = Pick<ProviderTested["results"][number], "tokens" | "cost_micro_dollars">;

/** What a test call used, by the provider's own count. */
function useOf(
  { live, clock }: Services,
  { account, provider }: BoundAccount,
  model: string,
  usage: TestCallResult["usage"],
): Used {
  if (usage === undefined) return { tokens: null, cost_micro_dollars: null };
  const counted = countedOf(usage);
  const { name, baseUrl } = account;
  const target = { provider: name, dialect: provider.name, baseUrl, model, isLocal: false, isListed: false };
  const { cost } = live.prices.price(target, counted, undefined, clock.now());
  return { tokens: { input: counted.tokens.input, output: counted.tokens.output }, cost_micro_dollars: cost };
}

/** Sends each key of a provider at each endpoint one small call, which costs a few tokens. The audit has no text of it. */
export async function testProvider(
  operator: Operator,
  services: Services,
  bound: BoundAccount,
  model: string,
): Promise<ProviderTested> {
  const { clock, upstream } = services;
  const results = await Promise.all(
    membersOf(bound).map(async (one) => {
      const begunAt = clock.monotonic();
      const { answered, status, reason, message, text, usage } = await testCall(upstream, one, model);
      return {
        ...{ fingerprint: one.member.fingerprint, endpoint: one.member.endpoint.url, answered },
        ...{ status: status ?? null, reason: reason ?? null, message: message ?? null, answer: text ?? null },
        ...useOf(services, bound, model, usage),
        milliseconds: Math.round(clock.monotonic() - begunAt),
      };
    }),
  );
  const outcome = results.map(({ message: _, answer: __, milliseconds: ___, ...one }) => one);
  const { name } = bound.account;
  await done(operator, "provider.test", name, undefined, { model, results: outcome });
  return { object: "provider.tested", provider: name, model, results };
}
