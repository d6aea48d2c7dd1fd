/** `troupe personas variants`, `stop`, `promote` and `resume`: how a persona's variants do, and which of them answer. */
import type { Config } from "../../config/config.ts";
import { suggest } from "../../lib/text/suggest.ts";
import { systemClock } from "../../lib/time/clock.ts";
import type { Persona } from "../../personas/persona.ts";
import type { Store } from "../../store/store.ts";
import { UsageQueryError } from "../../usage/budgets/own-filters.ts";
import { dollarsOf, parseFilter } from "../../usage/ledger/report.ts";
import { promoteVariant, stopVariant } from "../../usage/variants/changes.ts";
import { type VariantReport, variantReports, type WindowCount } from "../../usage/variants/report.ts";
import { record } from "../commands/audit.ts";
import { withStore } from "../commands/storage.ts";
import { count } from "../commands/usage.ts";
import { CommandError, type Context, type ExitCode, UsageError } from "../context.ts";
import { findServed } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";

type VariantOptions = { readonly since?: string; readonly until?: string; readonly json?: boolean };

export function showVariants(context: Context, id: string, { json, ...asked }: VariantOptions): Promise<ExitCode> {
  const span = spanOf(asked);
  return withStore(context, async (store, config) => {
    const persona = await findServed(context, config, id);
    if (persona.variants === undefined) throw new CommandError(`${id} has no variants.`);
    const reports = await variantReports(store, persona, span);
    if (json) {
      printJson(context.io, { persona: id, version: persona.version, variants: reports });
      return;
    }
    context.io.stdout.write(formatTable(columns, reports.map(rowOf)));
    for (const one of reports) if (one.state === "stopped") context.io.stdout.write(stopWords(id, one));
  });
}

export function resumeVariant(
  context: Context,
  id: string,
  variant: string,
  { json }: Pick<VariantOptions, "json">,
): Promise<ExitCode> {
  return withStore(context, async (store) => {
    const stopped = (await store.variants.list(id)).filter((one) => one.variant === variant && one.stoppedAt !== null);
    if ((await store.variants.resume(id, variant, systemClock.now())) === 0)
      throw new CommandError(`${id} has no variant ${variant} that is stopped.`);
    await record(context, store, { act: "variant.resume", subject: `${id} ${variant}`, before: stopped });
    if (json) printJson(context.io, { persona: id, variant, resumed: true });
    else context.io.stderr.write(`${variant} of ${id} goes on, with a new window.\n`);
  });
}

type Json = Pick<VariantOptions, "json">;
/** @property after of the audit line @property json what is answered beside the names @property words the same for people */
type Change = { readonly after: object; readonly json: object; readonly words: string };

export const stopVariantByHand = (context: Context, id: string, variant: string, options: Json): Promise<ExitCode> =>
  changeVariant(context, id, variant, options, "variant.stop", async (store, persona) => {
    const serving = await stopVariant(store, persona, variant, systemClock.now());
    if (serving === undefined) throw new CommandError(`${variant} of ${id} is stopped already.`);
    const rest = serving.length === 0 ? "the persona without variants" : serving.join(", ");
    const words = `${variant} of ${id} is stopped: its callers go to ${rest}.\n${goOn(id, variant)}`;
    return { after: {}, json: { stopped: true, serving }, words };
  });

export const promoteVariantByHand = (context: Context, id: string, variant: string, options: Json): Promise<ExitCode> =>
  changeVariant(context, id, variant, options, "variant.promote", async (store, persona) => {
    const done = await promoteVariant(store, persona, variant, systemClock.now());
    const others = done.stopped.length === 0 ? "the others were stopped before" : `stopped: ${done.stopped.join(", ")}`;
    const words = `All callers of ${id} go to ${variant}; ${others}.\nIt holds until the persona's content changes: to keep it, write the variant's fields into the file.\n`;
    return { after: done, json: done, words };
  });

/** Changes which variants of a served persona answer, with the line of the audit that the admin API writes. */
function changeVariant(
  context: Context,
  id: string,
  variant: string,
  { json }: Json,
  act: string,
  change: (store: Store, persona: Persona) => Promise<Change>,
): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const persona = await findWithVariant(context, config, id, variant);
    const { version } = persona;
    const { after, json: answer, words } = await change(store, persona);
    await record(context, store, { act, subject: `${id} ${variant}`, after: { version, ...after } });
    if (json) printJson(context.io, { persona: id, version, variant, ...answer });
    else context.io.stderr.write(words);
  });
}

/** @throws CommandError where the persona that is served has no such variant */
async function findWithVariant(context: Context, config: Config, id: string, variant: string): Promise<Persona> {
  const persona = await findServed(context, config, id);
  const names = persona.variants?.map(({ name }) => name) ?? [];
  if (names.includes(variant)) return persona;
  const guess = suggest(variant, names);
  const known =
    names.length === 0 ? `${id} has no variants.` : `${id} has no variant '${variant}': ${names.join(", ")}.`;
  throw new CommandError(guess === undefined ? known : `${known} Did you mean '${guess}'?`);
}

const goOn = (id: string, variant: string) => `To let it go on: troupe personas resume ${id} ${variant}\n`;

/** @throws UsageError */
function spanOf(asked: Pick<VariantOptions, "since" | "until">) {
  try {
    const { since, until } = parseFilter({ ...asked }, systemClock.now(), 30);
    return { since, until };
  } catch (error) {
    if (error instanceof UsageQueryError) throw new UsageError(error.message);
    throw error;
  }
}

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
