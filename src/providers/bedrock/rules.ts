/**
 * The models of Bedrock: the format in which each is called, and the fields that it takes there. Names are those of models
 * (`amazon.nova-pro-v1:0`), of inference profiles (`us.anthropic.claude-…`) and ARNs.
 */
import type { RowsPlace } from "../../facts/explain.ts";
import { following, rowsOf } from "../../facts/facts.ts";
import { rulesFor } from "../../facts/rules.ts";
import type { BedrockRules } from "../../facts/vocabulary/bedrock.ts";
import { anthropicRules } from "../anthropic/rules.ts";
import type { Call } from "../provider.ts";

const all = rowsOf("converse", "bedrock");
const rows = following(() => all.filter(({ match }) => match !== "*"));
/** What is taken of every model, where neither its own row nor its maker's says otherwise. */
const others = following(() => all.filter(({ match }) => match === "*"));
const noOverrides: readonly never[] = [];

/** The model's own name on Anthropic's platform: `claude-…-20250929-v1:0`. */
const claudeName = (model: string): string | undefined => /(?:^|[./])anthropic\.(claude-.*)$/.exec(model)?.[1];

const complete = new WeakMap<object, readonly [BedrockRules & { match: string }]>();

type Asked = Pick<Call, "model" | "account">;

function rulesRow({ model, account }: Asked): readonly [BedrockRules & { match: string }] {
  const own = rulesFor<Partial<BedrockRules>>(model, account.modelRules, rows);
  const known = complete.get(own);
  if (known !== undefined) return known;
  const name = claudeName(model);
  const rest = name === undefined ? {} : anthropicRules({ model: name, account: { modelRules: [] } });
  const unknown = rulesFor<Partial<BedrockRules>>(model, noOverrides, others) as BedrockRules;
  const row = [{ ...unknown, ...rest, ...own, match: "*" }] as const;
  complete.set(own, row);
  return row;
}

export const bedrockRules = (call: Asked): BedrockRules => rulesRow(call)[0];

/** @param door the format in which the model is called @returns the rows that say how, for people */
export function rowsAt({ model }: Asked, door: BedrockRules["door"]): readonly RowsPlace[] {
  const own = { format: "converse", provider: "bedrock" } as const;
  if (door === "chat")
    return [
      { ...own, part: "named", facts: ["door"] },
      { format: "chat", provider: "openai" },
    ];
  const maker: RowsPlace[] = claudeName(model) === undefined ? [] : [{ format: "messages", provider: "anthropic" }];
  return [{ ...own, part: "named" }, ...maker, { ...own, part: "all" }];
}

/** Whether newer versions of the API are taken for a model; an ARN does not tell what it is of. */
export const takesNewVersions = (call: Call): boolean => bedrockRules(call).new_versions;

/** The same call with the rules of its model, for the code of the Messages API, which this format is built like. */
export function withRules<C extends Call>(call: C): C {
  return { ...call, account: { ...call.account, modelRules: rulesRow(call) } };
}
