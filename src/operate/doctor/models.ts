/** Plays a small set against the operator's own providers, for each model in use, and names what the facts say otherwise. */
import type { Config } from "../../config/config.ts";
import type { Explained } from "../../facts/explain.ts";
import { factsOf } from "../../facts/facts.ts";
import { few } from "../../lib/text/few.ts";
import { printable } from "../../lib/text/printable.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import type { Accounts, BoundAccount } from "../../upstream/accounts.ts";
import type { Upstream } from "../../upstream/client.ts";
import { membersOf } from "../../upstream/pool/pools.ts";
import { type TestCallResult, testCall } from "../../upstream/test-call.ts";
import type { AttemptTarget } from "../../usage/attempt.ts";
import { dollarsOf } from "../../usage/money.ts";
import { estimateUse } from "../../usage/prices/cost-estimate.ts";
import { billedTarget } from "../../usage/prices/outlook.ts";
import type { Prices } from "../../usage/prices/prices.ts";
import { countedOf } from "../../usage/tokens/counts.ts";
import { explainedAt } from "../checks/explained-at.ts";
import { type Check, failure, ok, warning } from "./check.ts";
import { type Contrary, contraries, type Play, plays } from "./plays.ts";

/** The most models that are called: each costs some ten calls. */
const maxModels = 20;

type ModelPlays = {
  readonly accounts: Accounts;
  readonly upstream: Upstream;
  readonly prices: Prices;
  readonly budgets: Config["budgets"];
  readonly now: () => number;
};

type Planned = {
  readonly id: string;
  readonly bound: BoundAccount;
  readonly model: string;
  readonly target: AttemptTarget;
  readonly facts: readonly Explained[];
  readonly plays: readonly (Play | Contrary)[];
};

type ModelPlan = {
  readonly planned: readonly Planned[];
  /** How many calls it makes at most, and what they cost at most. */
  readonly words: string;
  /** Of models that are not called, and why. */
  readonly left: readonly Check[];
};

/** Plans the calls, and makes none. @param ids `<account>/<model>` */
export function planModels(ids: readonly string[], tools: ModelPlays): ModelPlan {
  const isLocal = (id: string) => tools.accounts.find(parseModelId(id)?.namespace ?? "")?.provider.kind === "local";
  const asked = ids.filter((id) => !isLocal(id));
  const planned = asked.slice(0, maxModels).flatMap((id) => planOf(id, tools.accounts) ?? []);
  const known = new Set(planned.map(({ id }) => id));
  const unknown = asked.slice(0, maxModels).filter((id) => !known.has(id));
  const costs = planned.map((one) => mostOf(one, tools));
  const calls = planned.reduce((sum, one) => sum + one.plays.length, 0);
  const unpriced = costs.filter((cost) => cost === undefined).length;
  const sum = dollarsOf(costs.reduce<number>((all, cost) => all + (cost ?? 0), 0));
  const models = planned.length === 1 ? "1 model" : `${planned.length} models`;
  return {
    planned,
    words: `${models}, at most ${calls} calls and $${sum}${unpriced === 0 ? "" : `, without ${unpriced} that ${unpriced === 1 ? "has" : "have"} no price`}`,
    left: [
      ...(unknown.length === 0
        ? []
        : [warning("models", `not called, as no such provider is set up: ${printable(few(unknown))}`, "Set it up.")]),
      ...(asked.length === ids.length
        ? []
        : [ok("models", `not called, as this program answers itself: ${printable(few(ids.filter(isLocal)))}`)]),
      ...(asked.length <= maxModels
        ? []
        : [
            warning(
              "models",
              `${asked.length - maxModels} more are in use and were not called: ${printable(few(asked.slice(maxModels)))}`,
              "Name them: --models <provider>/<model>,…",
            ),
          ]),
    ],
  };
}

function planOf(id: string, accounts: Accounts): Planned | undefined {
  const target = billedTarget(accounts, id);
  const bound = target && accounts.find(target.provider);
  if (target === undefined || bound === undefined) return undefined;
  const model = parseModelId(id)!.name;
  const limits = factsOf(target.dialect, model);
  const facts = explainedAt(bound, model);
  const valueIn = (name: string) => facts.find(({ fact }) => fact === name)?.value;
  const isResponsesOnly = valueIn("responses_only") === true;
  return {
    ...{ id, bound, model, target, facts },
    plays: [
      ...plays.filter(({ isUnclaimed }) => isUnclaimed?.(limits) !== true),
      ...contraries.filter(
        ({ fact, values }) => values.includes(valueIn(fact)) && !(isResponsesOnly && fact === "tools_road"),
      ),
    ],
  };
}

/** @returns micro-dollars; undefined where the model has no price */
function mostOf({ plays: all, target }: Planned, { prices, budgets, now }: ModelPlays): number | undefined {
  let most = 0;
  for (const { asked } of all) {
    const inputBytes = JSON.stringify(asked).length;
    const use = estimateUse({ inputBytes, maxOutputTokens: asked.max_tokens as number }, budgets);
    const cost = prices.bound(target, countedOf(use), undefined, now());
    if (cost === undefined) return undefined;
    most += cost;
  }
  return most;
}

/** Makes the calls: of an account one after the other. Never rejects. */
export async function playModels({ planned, words, left }: ModelPlan, tools: ModelPlays): Promise<Check[]> {
  const byAccount = Map.groupBy(planned, ({ bound }) => bound.account.name);
  const found = await Promise.all(
    [...byAccount.values()].map(async (models) => {
      const checks: Check[] = [];
      for (const one of models) checks.push(...(await playModel(one, tools)));
      return checks;
    }),
  );
  return [ok("models", words), ...left, ...found.flat()];
}

/** What a check of a model is of. */
const subjectOf = ({ id }: Planned): string => `model ${printable(id)}`;

type Played = { readonly play: Play | Contrary; readonly result: TestCallResult };

async function playModel(planned: Planned, tools: ModelPlays): Promise<Check[]> {
  const played: Played[] = [];
  const checks: Check[] = [];
  let stopped = "";
  for (const play of planned.plays) {
    const result = await playOnce(planned, play, tools);
    played.push({ play, result });
    if (!result.answered && !isJudged(result)) {
      stopped = `; left at '${play.name}': ${result.status ?? "no answer"}`;
      checks.push(unjudged(planned, play, result));
      break;
    }
    const finding = "fact" in play ? contraryFinding(planned, play, result) : findingOf(planned, play, result);
    if (finding !== undefined) checks.push(finding);
    // What can't be asked plainly can't be asked otherwise.
    if (play.name === "plain" && !result.answered) break;
  }
  const taken = played.filter(({ play, result }) => !("fact" in play) && result.answered).map(({ play }) => play.name);
  const head = `${played.length} calls, ${costWords(planned, played, tools)}${stopped}`;
  return [ok(subjectOf(planned), `${head}; it takes: ${taken.join(", ") || "nothing"}`), ...checks];
}

function playOnce({ bound, model }: Planned, play: Play | Contrary, { upstream }: ModelPlays): Promise<TestCallResult> {
  const member = membersOf(bound)[0]!;
  const rule = "rule" in play ? play.rule : undefined;
  const { account } = member;
  const asIf =
    rule === undefined
      ? member
      : { ...member, account: { ...account, modelRules: [{ ...rule, match: "*" }, ...account.modelRules] } };
  return testCall(upstream, asIf, model, play.asked);
}

/** True for a refusal of what was asked, and not of who asked, or when. */
const isJudged = ({ status }: TestCallResult) => status === 400 || status === 422;

const unjudged = (planned: Planned, { name }: Play, { status, message = "" }: TestCallResult): Check =>
  (status === 401 || status === 403 || status === 404 ? failure : warning)(
    subjectOf(planned),
    `${name}: ${status === undefined ? "" : `answered ${status}: `}${printable(message)}`,
    status === 404 ? "It has no such model: name another." : "It could not be judged: look again when that is mended.",
  );

/** Where it refuses what the facts allow, or does not do it. */
function findingOf(
  planned: Planned,
  play: Play,
  { answered, completion, ...result }: TestCallResult,
): Check | undefined {
  const { name, isShown } = play;
  const saying = `the facts say: ${factsSaying(planned, play.facts)}`;
  if (!answered)
    return failure(
      subjectOf(planned),
      `${name}: refused with ${result.status}, ${printable(result.message ?? "")}; ${saying}`,
      advice,
    );
  if (completion === undefined)
    return warning(subjectOf(planned), `${name}: its answer can't be read`, "Look at the upstream.");
  if (isShown === undefined || isShown(completion) || isLeft(planned, name)) return undefined;
  return warning(
    subjectOf(planned),
    `${name}: answered without what was asked for; ${saying}`,
    `${advice} A model may also fail to do it once: play it again.`,
  );
}

/** A model that can't be made to call is left to choose. */
const isLeft = ({ facts }: Planned, name: string) =>
  name === "forced tool" &&
  facts.some(({ fact, value }) => (fact === "forced_tools" || fact === "required_choice") && value === false);

/** Where it takes what the facts refuse. */
function contraryFinding(
  planned: Planned,
  { name, fact, isShown }: Contrary,
  { answered, completion }: TestCallResult,
): Check | undefined {
  if (!answered || completion === undefined || isShown?.(completion) === false) return undefined;
  return warning(subjectOf(planned), `it takes ${name}; the facts say: ${factsSaying(planned, [fact])}`, advice);
}

const advice = "Take newer facts (troupe facts update), or write what it takes into the provider's model_rules.";

function factsSaying({ facts }: Planned, names: readonly string[]): string {
  const said = names.flatMap((name) => facts.find(({ fact }) => fact === name) ?? []);
  if (said.length === 0) return "nothing against it";
  return said
    .map(({ fact, value, by, source }) => `${fact}: ${JSON.stringify(value)} by ${by} (${source[0] ?? "no source"})`)
    .join("; ");
}

function costWords({ target }: Planned, played: readonly Played[], { prices, now }: ModelPlays): string {
  let cost = 0;
  let unknown = 0;
  for (const { result } of played) {
    if (!result.answered) continue;
    const priced = result.usage && prices.price(target, countedOf(result.usage), undefined, now()).cost;
    if (priced == null) unknown += 1;
    else cost += priced;
  }
  return `$${dollarsOf(cost)}${unknown === 0 ? "" : ` and ${unknown} of unknown cost`}`;
}
