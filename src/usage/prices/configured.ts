/** Rates as the configuration says them. */
import type { PriceConfig, PriceRates } from "../../config/config.ts";
import {
  commonTiers,
  factorOf,
  type Rate,
  type RateCard,
  type Rates,
  type RatesByLength,
  rateOf,
  rateOfUse,
  tieredRates,
  type UnitKind,
} from "../../facts/prices/rates.ts";

const configuredKinds: Readonly<Record<string, UnitKind>> = {
  input: "input",
  cache_read: "cacheRead",
  cache_write: "cacheWrite",
  cache_write_1h: "cacheWrite1h",
  output: "output",
  reasoning: "reasoning",
  audio_input: "audioInput",
  audio_cache_read: "audioCacheRead",
  audio_output: "audioOutput",
  image_input: "imageInput",
  image_output: "imageOutput",
};

/** Makes a rate card of configured prices; a rate that a tier does not name is as it is without the tier. */
export function cardFromConfig({ tiers = [], service_tiers = {}, ...base }: Partial<PriceConfig>): RateCard {
  const lengths: RatesByLength = {
    base: ratesFrom(base),
    tiers: tiers
      .map(({ above, ...rates }) => ({ above, rates: ratesFrom({ ...base, ...rates }) }))
      .sort((a, b) => a.above - b.above),
  };
  const own = Object.entries(service_tiers).map(([name, tier]) => [
    name.toLowerCase(),
    typeof tier === "number" ? factorOf(tier) : tieredRates(lengths, ratesFrom({ ...base, ...tier })),
  ]);
  return { ...lengths, serviceTiers: { ...commonTiers, ...Object.fromEntries(own) } };
}

function ratesFrom({ request, image, audio_minute, tools = {}, ...perMillion }: PriceRates): Rates {
  const tokens: { [Kind in UnitKind]?: Rate } = {};
  for (const [name, dollars] of Object.entries(perMillion)) {
    const kind = configuredKinds[name];
    if (kind !== undefined && typeof dollars === "number") tokens[kind] = rateOf(dollars);
  }
  return {
    tokens,
    request: request === undefined ? undefined : rateOfUse(request),
    image: image === undefined ? undefined : rateOfUse(image),
    audioSecond: audio_minute === undefined ? undefined : rateOfUse(audio_minute) / 60n,
    tools: Object.fromEntries(Object.entries(tools).map(([tool, dollars]) => [tool, rateOfUse(dollars)])),
  };
}
