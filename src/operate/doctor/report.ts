/** What the doctor finds in a server that runs, as a report. */
import { type DoctorReport, levels, maxOfKind } from "../../api/doctor.ts";
import type { Services } from "../../call/services.ts";
import { done, type Operator } from "../act.ts";
import type { Check } from "./check.ts";
import { examineRunning, type Reach } from "./running.ts";

const findingJson = ({ state, what, found, advice }: Check) => ({
  ...{ level: state, place: what, message: found },
  advice: advice ?? null,
});

/** Thousands of personas may have one fault: the first stand for the others. */
function withoutMany(checks: readonly Check[]): Check[] {
  const kinds = Map.groupBy(checks, ({ state, what }) => `${state} ${what.replace(/^persona .*/, "personas")}`);
  return [...kinds.values()].flatMap((all) => {
    const more = all.length - maxOfKind;
    if (more <= 0) return all;
    const { state, what } = all[0]!;
    const found = `${more} more like the ${maxOfKind} that are listed`;
    const rest: Check = { state, what: what.replace(/^persona .*/, "personas"), found };
    return [...all.slice(0, maxOfKind), { ...rest, ...(state !== "ok" && { advice: "'troupe doctor' lists all." }) }];
  });
}

/** What the checks find in a server that runs. */
export async function reportOf(services: Services, reach: Reach): Promise<DoctorReport> {
  const at = new Date(services.clock.now()).toISOString();
  const checks = await examineRunning(services, reach);
  const count = (level: Check["state"]) => checks.filter(({ state }) => state === level).length;
  const findings = withoutMany(checks)
    .map(findingJson)
    .toSorted((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level));
  const counts = { error: count("error"), warning: count("warning"), ok: count("ok") };
  return { object: "doctor.report", at, ok: counts.error === 0, counts, findings };
}

/** Has the doctor call each provider and MCP server, which costs a few tokens. @param report that of the moment */
export async function callAll(operator: Operator, report: () => Promise<DoctorReport>): Promise<DoctorReport> {
  const made = await report();
  await done(operator, "doctor.call", "server", undefined, made.counts);
  return made;
}
