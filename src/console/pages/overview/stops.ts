/** What stops calls though nothing fails: a budget that is spent, no provider at all, personas without one, and refusals. */

import type { Budget } from "../../../api/budgets.ts";
import type { DoctorFinding } from "../../../api/doctor.ts";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { href } from "../../router.ts";
import type { Tone } from "../../ui/layout.tsx";
import { count } from "../../ui/numbers.ts";
import { linkOfScope } from "../keys/budgets.tsx";
import type { Row, Totals } from "../spend/sums.ts";

export type Finding = {
  readonly tone: Tone;
  readonly text: string;
  readonly href: string;
  readonly until?: string | null;
  readonly since?: string;
  readonly note?: string | null;
};

type Spent = Listed<Budget>;

/** Budgets by whom they stop: of everybody and of a plan it is a failure, of a tag or a key it is what somebody wanted, and worth a look. */
const kinds = [
  { kind: "all", tone: "bad", many: "" },
  { kind: "tier", tone: "bad", many: "More plans' budgets are spent" },
  { kind: "tag", tone: "warn", many: "More tags' budgets are spent" },
  { kind: "key", tone: "warn", many: "More keys' budgets are spent" },
] as const;
const shown = 3;

export const spentBudgets = (signal: AbortSignal): Promise<readonly Spent[]> =>
  Promise.all(
    kinds.map(({ kind }) => get<Spent>("v1/budgets", { kind, state: "spent", limit: String(shown) }, { signal })),
  );

const stopped = ({ scope, name }: Budget): string => {
  const [kind, id] = scope.split(":", 2);
  return kind === "all"
    ? "every call of everybody"
    : `every call of the ${kind === "tier" ? "plan" : kind} ${name ?? id}`;
};

/** @param all spent budgets, kind by kind */
export const ofBudgets = (all: readonly Spent[]): Finding[] =>
  kinds.flatMap(({ kind, tone, many }, at) => {
    const { data, has_more } = all[at]!;
    const found = data.map((budget): Finding => {
      const { scope, name, period, resets_at: until } = budget;
      return {
        ...{ tone, href: scope === "all" ? href("keys", ["budgets"]) : linkOfScope(scope), until },
        text: `A budget is spent (${name ?? scope}, ${period}): ${stopped(budget)} is refused`,
      };
    });
    const rest = { tone, href: href("keys", ["budgets"], { kind, state: "spent" }), text: many };
    return has_more ? [...found, rest] : found;
  });

export const ofSetUp = ({ providers }: Readonly<Record<string, { readonly set_up?: number }>>): Finding[] =>
  providers?.set_up === 0
    ? [{ tone: "bad", text: "No provider is set up: no model of any can be called.", href: href("providers") }]
    : [];

/** The doctor's word for a persona that can't be called: its models' providers are none that is set up. */
export const isUnreachable = ({ level, place, message }: DoctorFinding): boolean =>
  level === "warning" && place.startsWith("persona ") && message.startsWith("none of its models");

export function ofUnreachable(findings: readonly DoctorFinding[]): Finding[] {
  const ids = findings.filter(isUnreachable).map(({ place }) => place.slice("persona ".length));
  if (ids.length === 0) return [];
  const rest = ids.length - shown;
  const names = `${ids.slice(0, shown).join(", ")}${rest > 0 ? ` and ${count(rest)} more` : ""}`;
  const text = `No model of ${names} has a provider that is set up: ${ids.length === 1 ? "it" : "they"} can't be called`;
  return [{ tone: "warn", text, href: ids.length === 1 ? href("personas", [ids[0]!]) : href("system", ["doctor"]) }];
}

/** So few refusals are chance. */
const leastRefusals = 3;

/**
 * Where every fifth call or more was refused, and not by a provider: by a limit, a budget, or for what was asked.
 * @param ends rows by `ended` and `failure`
 */
export function ofRefusals(ends: readonly Row[], { calls }: Totals, since: string): Finding[] {
  const own = ends.filter((row) => row["failure"] === "" && String(row.ended) === "refused");
  const refused = own.reduce((sum, row) => sum + row.calls, 0);
  if (refused < leastRefusals || refused < calls / 5) return [];
  const text = `${count(refused)} of ${count(calls)} attempts were refused here in the last 15 minutes`;
  return [{ tone: refused >= calls / 2 ? "bad" : "warn", text, href: href("calls", [], { ended: "refused", since }) }];
}
