/** The prices that `troupe.yaml` may hold. */
import { Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../lib/json/keyed-record.ts";
import { Closed } from "../lib/json/schemas.ts";
import { optional, text } from "./schema-fields.ts";

const dollars = (of: string) => optional(Type.Number({ minimum: 0, maximum: 1_000_000, description: of }));

const perMillion = (kind: string) => dollars(`Dollars per million ${kind}.`);

const rates = {
  input: perMillion("input tokens"),
  cache_read: perMillion("tokens read from a cache"),
  cache_write: perMillion("tokens written to a cache"),
  cache_write_1h: perMillion("tokens written to a cache for an hour"),
  output: perMillion("output tokens"),
  reasoning: perMillion("reasoning tokens. Default: as `output`"),
  audio_input: perMillion("tokens of audio in the input"),
  audio_cache_read: perMillion("tokens of cached audio"),
  audio_output: perMillion("tokens of audio in the output"),
  image_input: perMillion("tokens of images in the input. Default: as `input`"),
  image_output: perMillion("tokens of images in the output"),
  request: dollars("Dollars per call."),
  image: dollars("Dollars per image in the answer."),
  audio_minute: dollars("Dollars per minute of a recording, where its length is billed."),
  tools: optional(
    KeyedRecord(keyOfLength(64), Type.Number({ minimum: 0 }), { description: "Dollars per use of a hosted tool." }),
  ),
};

export const PriceRatesFile = Closed(rates);

export const PriceFile = Closed({
  match: text("A glob over `<provider>/<model>`; `*` matches anything."),
  ...rates,
  tiers: optional(
    Type.Array(
      Closed({
        above: Type.Integer({ minimum: 0, description: "Input tokens; what has more costs this." }),
        ...rates,
      }),
      { description: "Rates by the length of the input; what one leaves out is as it is without it." },
    ),
  ),
  service_tiers: optional(
    KeyedRecord(keyOfLength(64), Type.Union([Type.Number({ minimum: 0, maximum: 1000 }), PriceRatesFile]), {
      description:
        "By the name of the service tier: a factor, or rates; of a long input in proportion to its tier. So are named `inference_geo_us` and `speed_fast`. Default: 0.5 for `batch` and `flex`.",
    }),
  ),
});

export const UnknownPriceFile = Closed({
  unknown_price: Closed(rates, { description: "What a model costs that no price is known of." }),
});
