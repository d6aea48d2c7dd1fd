/** The admin API's routes of the doctor. */
import { Type } from "@sinclair/typebox";
import { DoctorReport, levels, maxOfKind } from "../api/doctor.ts";
import type { Services } from "../call/services.ts";
import { queryOf } from "../http/openapi/describe.ts";
import type { Check } from "../operate/doctor/check.ts";
import type { Reach } from "../operate/doctor/running.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

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

async function reportOf(services: Services, reach: Reach): Promise<DoctorReport> {
  const at = new Date(services.clock.now()).toISOString();
  // Imported late: only who asks needs it.
  const { examineRunning } = await import("../operate/doctor/running.ts");
  const checks = await examineRunning(services, reach);
  const count = (level: Check["state"]) => checks.filter(({ state }) => state === level).length;
  const findings = withoutMany(checks)
    .map(findingJson)
    .toSorted((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level));
  const counts = { error: count("error"), warning: count("warning"), ok: count("ok") };
  return { object: "doctor.report", at, ok: counts.error === 0, counts, findings };
}

/** Who asks at the same moment, or soon after, is given the same report. */
const keptMs = 3_000;

export function doctorRoutes(plugin: AdminPlugin) {
  const kept = new Map<Reach, { readonly until: number; readonly report: Promise<DoctorReport> }>();
  const report = (services: Services, reach: Reach) => {
    const now = services.clock.monotonic();
    const last = kept.get(reach);
    if (last !== undefined && now < last.until) return last.report;
    const made = reportOf(services, reach);
    const settle = (until: number) => void kept.set(reach, { until, report: made });
    settle(Number.POSITIVE_INFINITY);
    made.then(
      () => settle(services.clock.monotonic() + keptMs),
      () => kept.delete(reach),
    );
    return made;
  };
  return plugin
    .get(
      "/v1/doctor",
      ({ services, query: { network } }) => report(services, network ? "network" : "here"),
      adminOperation({
        operationId: "adminGetDoctor",
        summary: "What 'troupe doctor' finds, in the server that runs",
        query: queryOf({
          network: Type.Boolean({
            default: false,
            description:
              "Also asks the database's server, coordination and the sources of credentials; no provider is called.",
          }),
        }),
        response: DoctorReport,
        errors: [400],
      }),
    )
    .post(
      "/v1/doctor",
      async ({ services, operator }) => {
        const made = await report(services, "call");
        await operator.record({ act: "doctor.call", subject: "server", after: made.counts });
        return made;
      },
      adminOperation({
        operationId: "adminRunDoctor",
        summary: "The same with a small call of each provider, which costs a few tokens, and each MCP server",
        response: DoctorReport,
      }),
    );
}
