/** The admin API's routes of personas: what is served, and what a call of one would send. */
import { type Static, Type } from "@sinclair/typebox";
import { PersonaReportPart } from "../api/persona-reports.ts";
import { PersonaSummary, RenderedPersona, Persona as ShownPersona } from "../api/personas.ts";
import { pageSchema } from "../api/shape.ts";
import { findAdditions } from "../call/plan/knowledge.ts";
import { preparePersona } from "../call/plan/personas.ts";
import type { Services } from "../call/services.ts";
import { oneOf, queryOf, writing } from "../http/openapi/describe.ts";
import { renderCall, variantOf } from "../http/render.ts";
import { Closed, Open } from "../lib/json/schemas.ts";
import { isoTime } from "../lib/time/clock.ts";
import { listPreviews, type Preview } from "../operate/previews.ts";
import { findReport, listReports } from "../operate/reports.ts";
import type { PersonaContent } from "../personas/file/schema.ts";
import { personaTextOf, placesOf } from "../personas/file/source.ts";
import { contentOf, hasContent, type Persona } from "../personas/persona.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { parseModelId } from "../protocols/model-id.ts";
import { providers } from "../providers/registry.ts";
import type { TestRunCounts } from "../store/contract/persona-test-runs.ts";
import type { VariantState } from "../store/contract/variants.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, pageOf, pageParameters, text } from "./pages.ts";

const Render = Closed({
  persona: Type.String({ description: "Its id, alone or with a version or label." }),
  request: Open(
    { messages: Type.Array(Type.Object({})) },
    { description: "A chat completion without model: messages, variables, stream and whatever a caller may send." },
  ),
  variant: Type.Optional(Type.String({ description: "One of its variants; default: the one with the largest share." })),
  model: Type.Optional(Type.String({ description: "<provider>/<model>, in place of the persona's list." })),
});

/** @throws ApiError not_found */
export function servedPersona({ personas }: Services, id: string): Persona {
  const persona = personas.find(id);
  if (persona === undefined) throw ApiError.notFound("There is no such persona.", "id");
  return persona;
}

/** What the store knows of all personas: variants that have stopped themselves, and the last run of each one's tests. */
type Remembered = {
  readonly stopped: readonly Pick<VariantState, "persona" | "version" | "variant">[];
  readonly runs: ReadonlyMap<string, TestRunCounts>;
};

async function remembered({ store }: Services): Promise<Remembered> {
  const [stopped, runs] = await Promise.all([store.variants.stopped(), store.testRuns.list()]);
  return { stopped, runs: new Map(runs.map((one) => [one.persona, one])) };
}

function lastRunJson(run: TestRunCounts | undefined) {
  if (run === undefined) return null;
  const { version, at, passed, failed, errors } = run;
  return { version, started_at: isoTime(at), passed, failed, errors };
}

function summaryJson({ live }: Services, persona: Persona, { stopped, runs }: Remembered): PersonaSummary {
  const { id, version, description, tier, ownedBy, created, targets, tags = [] } = persona;
  const model = targets.find((target) => live.accounts.find(parseModelId(target)?.namespace ?? "") !== undefined);
  const models = [...targets];
  const variants = (persona.variants ?? []).map((variant) => variant.name);
  const isStopped = (name: string) =>
    stopped.some((one) => one.persona === id && one.version === version && one.variant === name);
  return {
    object: "persona",
    id,
    version,
    description,
    tier,
    owned_by: ownedBy,
    created,
    tags: [...tags],
    model: model ?? null,
    models,
    variants,
    stopped_variants: variants.filter(isStopped),
    last_test_run: lastRunJson(runs.get(id)),
  };
}

async function detailsJson(services: Services, persona: Persona): Promise<ShownPersona> {
  const { greeting = null, variables, defaults, limits, options, stop, tools, examples } = persona;
  const source = (await personaTextOf(persona, services.live.config.personas.folder)) ?? null;
  return {
    ...summaryJson(services, persona, await remembered(services)),
    greeting,
    variables: Object.fromEntries(variables),
    defaults,
    limits,
    options,
    stop,
    tools,
    examples,
    source,
    since_stable: await sinceStable(services, persona),
    previews: (await listPreviews(services)).flatMap((one) => pushedJson(one, persona.id)),
    reports: (await listReports(services, persona.id)).flatMap((one) => pushedJson(one, persona.id)),
  };
}

/** @returns nothing where a push has no such persona */
const pushedJson = ({ label, personas, keyName, pushedAt, endsAt }: Preview, persona: string) =>
  personas
    .filter(({ id }) => id === persona)
    .map(({ version }) => ({
      ...{ label, version, key_name: keyName, pushed_at: isoTime(pushedAt), ends_at: isoTime(endsAt) },
    }));

async function reportJson(services: Services, id: string, label: string | undefined): Promise<PersonaReportPart> {
  const { info, against, persona } = await findReport(services, id, label);
  return { object: "persona.report", ...pushedJson(info, id)[0]!, against, persona };
}

/** What of a persona is another than its label `stable` says. */
async function sinceStable({ personas }: Services, persona: Persona) {
  const stable = personas.find(`${persona.id}@stable`);
  if (stable === undefined || stable.version === persona.version) return null;
  const { mustSee } = await import("../personas/review/must-see.ts");
  const contentIn = (one: Persona) => JSON.parse(contentOf(one)) as PersonaContent;
  const must_see = hasContent(stable) && hasContent(persona) ? mustSee(contentIn(stable), contentIn(persona)) : [];
  return { version: stable.version, must_see };
}

async function renderJson(
  services: Services,
  { persona: id, variant: asked, ...question }: Static<typeof Render>,
  signal: AbortSignal,
) {
  const { live, clock, media, personas } = services;
  await preparePersona(services, id);
  const found = personas.find(id);
  if (found === undefined) throw ApiError.invalidValue("persona", "persona: there is no such persona.");
  const { persona, variant } = variantOf(found, asked);
  const { folder } = live.config.personas;
  const source = await personaTextOf(found, folder);
  const additions = (of: Persona, request: ChatRequest) =>
    findAdditions(services.knowledge, of, request, { parsed: { ...request } });
  const tools = { clock, media, providers, configured: live.config.providers, additions };
  const places = source && (await placesOf(found, source, folder, variant));
  const rendered = await renderCall(tools, { ...question, persona, places }, signal);
  return { object: "persona.render" as const, variant: variant ?? null, ...rendered };
}

export const personaRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas",
      async ({ services, query: { tag, name, stopped: onlyStopped, after, limit } }) => {
        const found = services.personas
          .list()
          .filter(
            ({ id, tags = [] }) =>
              (tag === undefined || tags.includes(tag)) && (name === undefined || id.includes(name)),
          );
        const known = await remembered(services);
        const all = found.map((persona) => summaryJson(services, persona, known));
        return pageOf(
          onlyStopped === "true" ? all.filter(({ stopped_variants: own }) => own.length > 0) : all,
          after,
          limit,
        );
      },
      adminOperation({
        operationId: "adminListPersonas",
        summary: "Personas that are served, by their ids, a page at a time",
        query: queryOf({
          tag: text(),
          name: text("A part of the id."),
          stopped: Type.Optional(
            oneOf(["true", "false"], { description: "true: only those with variants that have stopped themselves." }),
          ),
          ...pageParameters(1000, 100),
        }),
        response: pageSchema(PersonaSummary),
        errors: [400, 404],
      }),
    )
    .get(
      "/v1/personas/:namespace/:name",
      ({ services, params: { namespace, name } }) =>
        detailsJson(services, servedPersona(services, `${namespace}/${name}`)),
      adminOperation({
        operationId: "adminGetPersona",
        summary: "One persona, with the text of its file",
        params: Type.Object({ namespace: Type.String(), name: Type.String() }),
        response: ShownPersona,
        errors: [404],
      }),
    )
    .get(
      "/v1/personas/:namespace/:name/report",
      ({ services, params: { namespace, name }, query: { label } }) =>
        reportJson(services, `${namespace}/${name}`, label),
      adminOperation({
        operationId: "adminGetPersonaReport",
        summary: "What the last report says of a persona that a branch changes",
        params: Type.Object({ namespace: Type.String(), name: Type.String() }),
        query: queryOf({ label: text("Of the report; default: the newest one.") }),
        response: PersonaReportPart,
        errors: [400, 404],
      }),
    )
    .post(
      "/v1/personas/render",
      ({ services, request, body }) => renderJson(services, body, request.signal),
      adminOperation({
        operationId: "adminRenderPersona",
        summary: "What a call of a persona would send to each of its models, and where each part came from",
        description: "Nothing is sent, but for media that a provider takes no URLs of, which are fetched as in a call.",
        body: Render,
        examples: {
          question: {
            summary: "A question",
            value: { persona: "troupe/guide", request: { messages: [{ role: "user", content: "Hello!" }] } },
          },
        },
        response: RenderedPersona,
        errors: writing,
      }),
    );
