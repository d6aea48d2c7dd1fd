/** The admin API's routes of the doctor. */
import { Type } from "@sinclair/typebox";
import { DoctorReport } from "../api/doctor.ts";
import type { Services } from "../call/services.ts";
import { queryOf } from "../http/openapi/describe.ts";
import type { Reach } from "../operate/doctor/running.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

/** Imported late: only who asks needs them. */
const acts = () => import("../operate/doctor/report.ts");

/** Who asks at the same moment, or soon after, is given the same report. */
const keptMs = 3_000;

export function doctorRoutes(plugin: AdminPlugin) {
  const kept = new Map<Reach, { readonly until: number; readonly report: Promise<DoctorReport> }>();
  const report = (services: Services, reach: Reach) => {
    const now = services.clock.monotonic();
    const last = kept.get(reach);
    if (last !== undefined && now < last.until) return last.report;
    const made = acts().then(({ reportOf }) => reportOf(services, reach));
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
      async ({ services, operator }) => (await acts()).callAll(operator, () => report(services, "call")),
      adminOperation({
        operationId: "adminRunDoctor",
        summary: "The same with a small call of each provider, which costs a few tokens, and each MCP server",
        response: DoctorReport,
      }),
    );
}
