/** `troupe personas variants`, `stop`, `promote` and `resume`: how a persona's variants do, and which of them answer. */
import { systemClock } from "../../lib/time/clock.ts";
import { promoteVariant, resumeVariant, stopVariant } from "../../operate/variants.ts";
import { parseFilter } from "../../usage/ledger/report.ts";
import { dollarsOf } from "../../usage/money.ts";
import { type VariantReport, variantReports, type WindowCount } from "../../usage/variants/report.ts";
import { withOperator } from "../commands/operator.ts";
import { withStore } from "../commands/storage.ts";
import { count } from "../commands/usage.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { findServed } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";

type Json = { readonly json?: boolean };
type VariantOptions = Json & { readonly since?: string; readonly until?: string };

export function showVariants(context: Context, id: string, { json, ...asked }: VariantOptions): Promise<ExitCode> {
  const { since, until } = parseFilter(asked, systemClock.now(), 30);
  return withStore(context, async (store, config) => {
    const persona = await findServed(context, config, id);
    if (persona.variants === undefined) throw new CommandError(`${id} has no variants.`);
    const reports = await variantReports(store, persona, { since, until });
    if (json) {
      printJson(context.io, { persona: id, version: persona.version, variants: reports });
      return;
    }
    context.io.stdout.write(formatTable(columns, reports.map(rowOf)));
    for (const one of reports) if (one.state === "stopped") context.io.stdout.write(stopWords(id, one));
  });
}

export function resumeVariantByHand(context: Context, id: string, variant: string, { json }: Json): Promise<ExitCode> {
  return withOperator(context, async (operator) => {
    await resumeVariant(operator, id, variant);
    if (json) printJson(context.io, { persona: id, variant, resumed: true });
    else context.io.stderr.write(`${variant} of ${id} goes on, with a new window.\n`);
  });
}

export function stopVariantByHand(context: Context, id: string, variant: string, { json }: Json): Promise<ExitCode> {
  return withOperator(context, async (operator, config) => {
    const persona = await findServed(context, config, id);
    const { after, serving } = await stopVariant(operator, persona, variant);
    const rest = serving.length === 0 ? "the persona without variants" : serving.join(", ");
    const words = `${variant} of ${id} is stopped: its callers go to ${rest}.\n${goOn(id, variant)}`;
    if (json) printJson(context.io, { persona: id, ...after, variant, stopped: true, serving });
    else context.io.stderr.write(words);
  });
}

export function promoteVariantByHand(context: Context, id: string, variant: string, { json }: Json): Promise<ExitCode> {
  return withOperator(context, async (operator, config) => {
    const persona = await findServed(context, config, id);
    const { version, stopped, resumed } = (await promoteVariant(operator, persona, variant)).after;
    const others = stopped.length === 0 ? "the others were stopped before" : `stopped: ${stopped.join(", ")}`;
    const words = `All callers of ${id} go to ${variant}; ${others}.\nIt holds until the persona's content changes: to keep it, write the variant's fields into the file.\n`;
    if (json) printJson(context.io, { persona: id, version, variant, stopped, resumed });
    else context.io.stderr.write(words);
  });
}

const goOn = (id: string, variant: string) => `To let it go on: troupe personas resume ${id} ${variant}\n`;

const columns = ["variant", "share", "state", "calls", "broken", "cost", "window", "errors", "refusals", "slow"];

/** A count and the one that stops the variant: "3 of 22". */
const counted = ({ count: own, stops_at }: WindowCount) =>
  stops_at === null ? undefined : `${count(own)} of ${count(stops_at)}`;

function rowOf({ name, share, state, calls, broken, cost_micro_dollars, window }: VariantReport) {
  return [
    name,
    `${(share * 100).toFixed(1)} %`,
    state,
    count(calls),
    count(broken),
    `$${dollarsOf(cost_micro_dollars)}`,
    ...(window === null
      ? [undefined, undefined, undefined, undefined]
      : [
          `${count(window.calls)} of ${count(window.of)}`,
          counted(window.errors),
          counted(window.refusals),
          counted(window.slow),
        ]),
  ];
}

const measures = {
  error_rate: ["failed", "errors"],
  refusals: ["were refused", "refusals"],
  p95_seconds: ["were slow", "slow"],
} as const;

function stopWords(id: string, { name, reason, stopped_at, window }: VariantReport): string {
  if (reason === "operator") return `\n${name} was stopped by hand at ${stopped_at}.\n${goOn(id, name)}`;
  const measure = Object.hasOwn(measures, reason ?? "") ? measures[reason as keyof typeof measures] : undefined;
  const { calls = 0, other_calls: others = 0 } = window ?? {};
  const why =
    measure === undefined || window === null
      ? `its ${count(calls)} calls cost $${dollarsOf(window?.cost_micro_dollars.count ?? 0)}, the others' ${count(others)} $${dollarsOf(window?.cost_micro_dollars.others ?? 0)}`
      : `${count(window[measure[1]].count)} of its ${count(calls)} calls ${measure[0]}, and ${count(window[measure[1]].others)} of the others' ${count(others)}`;
  return `\n${name} stopped itself at ${stopped_at} by ${reason}: ${why}.\n${goOn(id, name)}`;
}
