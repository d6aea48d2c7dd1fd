/** The schema of a provider in `troupe.yaml`. */
import { type Static, Type } from "@sinclair/typebox";
import { strategies } from "../lib/http/strategies.ts";
import { KeyedRecord } from "../lib/json/keyed-record.ts";
import { Closed, Open } from "../lib/json/schemas.ts";
import type { Frozen } from "./filled.ts";
import { flag, oneOf, optional, text, timeouts } from "./schema-fields.ts";

const ModelRuleFile = Open({ match: text("A glob over the model's name; `*` matches anything.") });

/** Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.1 */
export const headerName = { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", message: "is no name for a header" };

export const providerName = {
  pattern: "^[a-z0-9][a-z0-9._-]{0,63}$",
  message: "must be of 1 to 64 lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit",
};

export const weight = (description: string) => Type.Number({ minimum: 0.001, maximum: 1000, description });

const KeyFile = Type.Union([
  Type.String(),
  Closed({
    key: Type.String({ description: "Better `${NAME}` than the key itself." }),
    name: optional(text("By which it is shown beside its fingerprint.")),
    weight: optional(weight("Its share of the conversations, beside the other keys' shares. Default: 1.")),
  }),
]);
export type KeyFile = Frozen<Static<typeof KeyFile>>;

const EndpointFile = Type.Union([
  text("http or https."),
  Closed({
    base_url: text("http or https."),
    api_keys: optional(
      Type.Array(KeyFile, { minItems: 1, maxItems: 64, description: "Default: the keys of the provider." }),
    ),
    weight: optional(weight("Its share of the conversations, which its keys divide among them. Default: 1.")),
    models: optional(
      Type.Array(text("The upstream's name of a model."), {
        minItems: 1,
        description: "The only models that it has. Default: all.",
      }),
    ),
  }),
]);
export type EndpointFile = Frozen<Static<typeof EndpointFile>>;

export const ProviderFile = Closed({
  enabled: flag(true, "false: not set up, even if its key is in the environment."),
  dialect: optional(text("The built-in provider whose format it speaks. Default: the one of this name.")),
  base_url: optional(text("http or https. Default: the built-in provider's public address.")),
  api_key: optional(Type.String({ description: "Better `${NAME}` than the key itself." })),
  api_keys: optional(
    Type.Array(KeyFile, {
      minItems: 1,
      maxItems: 64,
      description:
        "Several keys in place of `api_key`, each as it is or as `{ key, name, weight }`. In the environment: `<NAME>_1`, `<NAME>_2` and so on beside the usual variable.",
    }),
  ),
  endpoints: optional(
    Type.Array(EndpointFile, {
      minItems: 1,
      maxItems: 64,
      description:
        "Several addresses in place of `base_url`, each as it is or as `{ base_url, api_keys, weight, models }`.",
    }),
  ),
  strategy: oneOf(
    strategies,
    "sticky",
    "Which of several keys and endpoints a call goes to: that of its `sticky` conversation, the `first` in order, `weighted` at random, the `least_busy`, or the one with the `fastest` first token.",
  ),
  headers: optional(KeyedRecord(headerName, Type.String(), { description: "Sent with every call." })),
  models: optional(Type.Array(Type.String({ minLength: 1 }), { description: "What the gateway's model list shows." })),
  options: optional(Type.Object({}, { additionalProperties: true, description: "Settings of that provider alone." })),
  model_rules: optional(
    Type.Array(ModelRuleFile, { description: "Overrides of what is known about models; the first that fits wins." }),
  ),
  unsupported_tools: oneOf(
    ["refuse", "drop"],
    "refuse",
    "Whether a call with a tool that only another provider runs (`web_search_20250305`) is refused with 400, or made without the tool.",
  ),
  upstream_store: flag(
    false,
    "Whether `store: true` of chat completions is passed on, so that the provider stores them too: its list shows those of all keys to whoever may use its own API.",
  ),
  timeouts: optional(
    Closed(
      {
        connect_seconds: optional(timeouts.connect_seconds),
        first_byte_seconds: optional(timeouts.first_byte_seconds),
        idle_seconds: optional(timeouts.idle_seconds),
      },
      { description: "Where it differs from `timeouts`." },
    ),
  ),
});
export type ProviderFile = Frozen<Static<typeof ProviderFile>>;
