/** The admin API's routes of personas' variants: their numbers, and which of them callers get. */

import { Type } from "@sinclair/typebox";
import { Variants } from "../api/variants.ts";
import { queryOf, writing } from "../http/openapi/describe.ts";
import { questionOf } from "../http/usage.ts";
import { promoteVariant, resumeVariant, stopVariant } from "../operate/variants.ts";
import { parseFilter } from "../usage/ledger/report.ts";
import { variantReports } from "../usage/variants/report.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, text } from "./pages.ts";
import { Named } from "./persona-files.ts";
import { servedPersona } from "./personas.ts";

const Changed = <const O extends string>(object: O) => ({
  object: Type.Literal(object),
  persona: Type.String(),
  version: Type.String(),
  variant: Type.String(),
});

export const periodQuery = queryOf({
  since: text("A day, a time or a period such as 7d; default: 30 days."),
  until: text("In the same forms; default: the end of today, in UTC."),
});

export const variantRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas/:namespace/:name/variants",
      async ({ services, params: { namespace, name }, query }) => {
        const persona = servedPersona(services, `${namespace}/${name}`);
        const period = periodOf(query, services.clock.now());
        const data = await variantReports(services.store, persona, period);
        return {
          object: "list" as const,
          persona: persona.id,
          version: persona.version,
          data: data.map((one) => ({ object: "persona.variant" as const, ...one })),
        };
      },
      adminOperation({
        operationId: "adminListVariants",
        summary: "A persona's variants: their calls, and how far each is from stopping itself",
        params: Named,
        query: periodQuery,
        response: Variants,
        errors: [400, 404],
      }),
    )
    .post(
      "/v1/personas/:namespace/:name/variants/:variant/resume",
      async ({ operator, params: { namespace, name, variant } }) => {
        const id = `${namespace}/${name}`;
        await resumeVariant(operator, id, variant);
        return { object: "persona.variant.resumed" as const, persona: id, variant, resumed: true as const };
      },
      adminOperation({
        operationId: "adminResumeVariant",
        summary: "Lets a variant that has stopped itself go on, with a new window",
        params: Type.Object({ ...Named.properties, variant: Type.String() }),
        response: Type.Object({
          object: Type.Literal("persona.variant.resumed"),
          persona: Type.String(),
          variant: Type.String(),
          resumed: Type.Literal(true),
        }),
        errors: [404, ...writing],
      }),
    )
    .post(
      "/v1/personas/:namespace/:name/variants/:variant/stop",
      async ({ services, operator, params: { namespace, name, variant } }) => {
        const persona = servedPersona(services, `${namespace}/${name}`);
        const { after, serving } = await stopVariant(operator, persona, variant);
        return {
          object: "persona.variant.stopped" as const,
          persona: persona.id,
          ...after,
          variant,
          serving: [...serving],
        };
      },
      adminOperation({
        operationId: "adminStopVariant",
        summary:
          "Stops a variant by hand: its callers go to the others, or, where none is left, to the persona without variants",
        description:
          "It is for the version that is served, until the variant is resumed or the persona's content changes.",
        params: Type.Object({ ...Named.properties, variant: Type.String() }),
        response: Type.Object({
          ...Changed("persona.variant.stopped"),
          serving: Type.Array(Type.String(), { description: "The others that are not stopped." }),
        }),
        errors: [404, ...writing],
      }),
    )
    .post(
      "/v1/personas/:namespace/:name/variants/:variant/promote",
      async ({ services, operator, params: { namespace, name, variant } }) => {
        const persona = servedPersona(services, `${namespace}/${name}`);
        const { version, stopped, resumed } = (await promoteVariant(operator, persona, variant)).after;
        return {
          ...{ object: "persona.variant.promoted" as const, persona: persona.id, version, variant },
          ...{ stopped: [...stopped], resumed },
        };
      },
      adminOperation({
        operationId: "adminPromoteVariant",
        summary:
          "Lets all callers go to one variant: it goes on where it was stopped, and all others are stopped by hand",
        description:
          "It is for the version that is served, until the others are resumed or the persona's content changes: to keep it, write the variant's fields into the persona's file.",
        params: Type.Object({ ...Named.properties, variant: Type.String() }),
        response: Type.Object({
          ...Changed("persona.variant.promoted"),
          stopped: Type.Array(Type.String(), { description: "Those that were serving." }),
          resumed: Type.Boolean({ description: "Whether it was stopped." }),
        }),
        errors: [404, ...writing],
      }),
    );

/** @throws ApiError invalid_value */
export function periodOf(query: Parameters<typeof questionOf>[0], now: number) {
  const { since, until } = parseFilter(questionOf(query), now, 30);
  return { since, until };
}
