/** The admin API's routes of a persona's versions: those that are kept, the text of each, and how each of them and of its variants does. */

import { Type } from "@sinclair/typebox";
import { pageSchema } from "../api/shape.ts";
import { PersonaNumbers, PersonaVersion, PersonaVersionText } from "../api/versions.ts";
import type { Services } from "../call/services.ts";
import { queryOf } from "../http/openapi/describe.ts";
import { isoTime } from "../lib/time/clock.ts";
import { noSuchPersona } from "../operate/personas/save.ts";
import { countsOf, listVersions } from "../operate/personas/versions.ts";
import { writePersonaYaml } from "../personas/file/persona-yaml.ts";
import type { PersonaContent } from "../personas/file/schema.ts";
import { contentOf, hasContent, sourceOf } from "../personas/persona.ts";
import { nameOf } from "../personas/versions/references.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LedgerFilter, LedgerLine } from "../store/contract/usage.ts";
import { quantileOf } from "../usage/ledger/quantile.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters } from "./pages.ts";
import { Named } from "./persona-files.ts";
import { periodOf, periodQuery } from "./variants.ts";

const OneVersion = Type.Object({ ...Named.properties, version: Type.String() });

const missing = () => ApiError.notFound("No such version is kept.", "version");

/** The versions that are kept, the newest first, with the one in service. @throws ApiError not_found */
async function versionsOf(services: Services, id: string) {
  const { store, personas } = services;
  const served = personas.find(id);
  const listed = await listVersions(store, id, served?.version);
  if (listed.length === 0) throw noSuchPersona();
  return listed.map(({ version, createdAt, usedAt, isServed, labels }) => ({
    ...{ object: "persona.version" as const, id: version, persona: id },
    ...{ created_at: isoTime(createdAt), used_at: isoTime(usedAt), in_service: isServed, labels },
  }));
}

async function versionJson(services: Services, id: string, asked: string) {
  const found = (await versionsOf(services, id)).find((one) => one.id === asked);
  if (found === undefined) throw missing();
  const { store, personas } = services;
  const served = personas.find(id);
  if (found.created_at === null && served !== undefined && hasContent(served)) {
    const content = JSON.parse(contentOf(served)) as PersonaContent;
    return { ...found, source: sourceOf(served) ?? null, resolved: writePersonaYaml(content) };
  }
  const row = await store.personaVersions.get(nameOf({ id, version: asked }));
  if (row === undefined) throw missing();
  return { ...found, source: row.source, resolved: writePersonaYaml(JSON.parse(row.content) as PersonaContent) };
}

/** The latest lines by which times are measured. */
const maxLines = 2_000;

async function numbersOf({ store }: Services, persona: string, period: Pick<LedgerFilter, "since" | "until">) {
  const filter = { ...period, where: { persona } };
  const [sums, lines] = await Promise.all([
    store.ledger.sums(filter, ["persona_version", "variant"], { limit: 1_000 }),
    store.ledger.lines({ ...filter, limit: maxLines }),
  ]);
  return sums.map((sum) => {
    const [version = "", variant = ""] = sum.group;
    const own = lines.filter(
      (line) =>
        (line.personaVersion ?? "") === version && (line.variant ?? "") === variant && line.ended === "finished",
    );
    const times = (of: (line: LedgerLine) => number | null) => ({
      p50: quantileOf(own, 0.5, of),
      p95: quantileOf(own, 0.95, of),
    });
    return {
      ...{ version, variant, ...countsOf(sum) },
      first_token_ms: times(({ firstTokenMs }) => firstTokenMs),
      total_ms: times(({ totalMs }) => totalMs),
      timed_calls: own.length,
    };
  });
}

export const personaVersionRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas/:namespace/:name/versions",
      async ({ services, params: { namespace, name }, query: { after, limit } }) =>
        pageOf(await versionsOf(services, `${namespace}/${name}`), after, limit),
      adminOperation({
        operationId: "adminListPersonaVersions",
        summary: "A persona's versions that are kept, the newest first, a page at a time",
        params: Named,
        query: queryOf(pageParameters(1000, 100)),
        response: pageSchema(PersonaVersion),
        errors: [400, 404],
      }),
    )
    .get(
      "/v1/personas/:namespace/:name/versions/:version",
      ({ services, params: { namespace, name, version } }) => versionJson(services, `${namespace}/${name}`, version),
      adminOperation({
        operationId: "adminGetPersonaVersion",
        summary: "One version with its texts",
        params: OneVersion,
        response: PersonaVersionText,
        errors: [404],
      }),
    )
    .get(
      "/v1/personas/:namespace/:name/numbers",
      async ({ services, params: { namespace, name }, query }) => {
        const persona = `${namespace}/${name}`;
        const period = periodOf(query, services.clock.now());
        const data = await numbersOf(services, persona, period);
        return { object: "list", persona, since: isoTime(period.since), until: isoTime(period.until), data };
      },
      adminOperation({
        operationId: "adminGetPersonaNumbers",
        summary: "How each version and variant of a persona does: calls, errors, cost, first token and total time",
        description: "Sums by the ledger; times are those of the latest 2,000 calls of the persona.",
        params: Named,
        query: periodQuery,
        response: PersonaNumbers,
        errors: [400],
      }),
    );
