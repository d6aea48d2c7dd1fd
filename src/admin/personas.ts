/** The admin API's routes of personas: what is served, and what a call of one would send. */
import { type Static, Type } from "@sinclair/typebox";
import { findAdditions } from "../call/plan/knowledge.ts";
import { preparePersona } from "../call/plan/personas.ts";
import type { Preview } from "../call/plan/previews.ts";
import type { Services } from "../call/services.ts";
import { oneOf, queryOf, writing } from "../http/openapi/describe.ts";
import { renderCall, variantOf } from "../http/render.ts";
import { Closed, Open, titled } from "../lib/json/schemas.ts";
import { isoTime } from "../lib/time/clock.ts";
import { contentOf, hasContent, type Persona } from "../personas/persona.ts";
import { ReportedPersona, ReportUpload } from "../personas/review/report-schema.ts";
import type { PersonaContent } from "../personas/schema.ts";
import { placesOf, textOf } from "../personas/source.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { parseModelId } from "../protocols/model-id.ts";
import { providers } from "../providers/registry.ts";
import type { TestRunCounts } from "../store/persona-test-runs.ts";
import { needsStorage } from "../store/require-storage.ts";
import type { VariantState } from "../store/variants.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, OrNull, pageOf, pageParameters, pageSchema, text } from "./pages.ts";

const summary = {
  object: Type.Literal("persona"),
  id: Type.String(),
  version: Type.String({ description: "The beginning of the hash of its content." }),
  description: Type.String(),
  tier: Type.String(),
  owned_by: Type.String(),
  created: Type.Integer(),
  tags: Type.Array(Type.String()),
  model: OrNull(Type.String(), { description: "The model it uses: the first whose provider is set up." }),
  models: Type.Array(Type.String()),
  variants: Type.Array(Type.String(), { description: "Names of its variants." }),
  stopped_variants: Type.Array(Type.String(), { description: "Those that have stopped themselves." }),
  last_test_run: OrNull(
    Type.Object({
      version: Type.String({ description: "That was tested." }),
      started_at: Type.String(),
      passed: Type.Integer(),
      failed: Type.Integer(),
      errors: Type.Integer({ description: "Tests that could not be judged." }),
    }),
    { description: "Of all its tests, through this API; null: there was none." },
  ),
};
const Summary = Type.Object(summary);
const pushed = {
  label: Type.String(),
  version: Type.String({ description: "The persona's, in that branch." }),
  key_name: Type.String({ description: "Of the key that pushed it." }),
  pushed_at: Type.String(),
  ends_at: Type.String(),
};
const Pushed = Type.Object(pushed);
const Report = Type.Object({
  object: Type.Literal("persona.report"),
  ...pushed,
  against: ReportUpload.properties.against,
  persona: ReportedPersona,
});
const Details = Type.Object({
  ...summary,
  greeting: OrNull(Type.String()),
  variables: Type.Record(Type.String(), Type.Object({})),
  defaults: Type.Object({}),
  limits: Type.Object({}),
  options: Type.Object({}),
  stop: Type.Array(Type.String()),
  tools: Type.Array(Type.Object({})),
  examples: Type.Array(Type.Object({})),
  source: OrNull(Type.Object({ file: Type.String(), text: Type.String() }), {
    description: "The file that it was made of, as it was then.",
  }),
  since_stable: OrNull(
    Type.Object({
      version: Type.String(),
      must_see: Type.Array(Type.String()),
    }),
    { description: "What a reviewer must see of what changed since the label stable; null: nothing did." },
  ),
  previews: Type.Array(Pushed, { description: "Previews of branches that have it, by their labels." }),
  reports: Type.Array(Pushed, { description: "Reports on what branches change in it, the newest first." }),
});

titled({ PersonaSummary: Summary, PersonaPush: Pushed, Persona: Details, PersonaReportPart: Report });

const Render = Closed({
  persona: Type.String({ description: "Its id, alone or with a version or label." }),
  request: Open(
    { messages: Type.Array(Type.Object({})) },
    { description: "A chat completion without model: messages, variables, stream and whatever a caller may send." },
  ),
  variant: Type.Optional(Type.String({ description: "One of its variants; default: the one with the largest share." })),
  model: Type.Optional(Type.String({ description: "<provider>/<model>, in place of the persona's list." })),
});

const Origin = Type.Object({
  kind: Type.String({
    description: "persona, model, variable, caller, default, limit, option, knowledge, lorebook or provider.",
  }),
  field: Type.Optional(Type.String({ description: "The path in the persona's file or in the request." })),
  source: Type.Optional(Type.String({ description: "Of a variable's value: caller or default." })),
  capped: Type.Optional(Type.Unknown({ description: "What was asked, and the limit lowered." })),
  file: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});
titled({ TextOrigin: Origin });
const Segments = Type.Optional(Type.Array(Type.Object({ text: Type.String(), origin: Origin })));
const Rendered = Type.Object({
  object: Type.Literal("persona.render"),
  persona: Type.String(),
  variant: OrNull(Type.String()),
  composed: Type.Object({}, { description: "The request before a provider encodes it." }),
  parts: Type.Array(
    Type.Object({
      path: Type.Array(Type.Union([Type.String(), Type.Integer()])),
      origin: Origin,
      segments: Segments,
    }),
  ),
  models: Type.Array(
    Type.Object({
      model: Type.String(),
      use: Type.String({
        description:
          "first: the call goes there. fallback: where those before fail. unavailable: its provider is not set up.",
      }),
      origin: Origin,
      request: OrNull(
        Type.Object({
          method: Type.String(),
          url: Type.String(),
          headers: Type.Record(Type.String(), Type.String(), { description: "With asterisks for each secret." }),
          body: Type.String({ description: "The very text." }),
        }),
        { description: "Null where this program answers itself, and where an error keeps it from being sent." },
      ),
      parts: Type.Array(
        Type.Object({
          path: Type.String(),
          value: Type.Unknown(),
          origins: Type.Array(Origin),
          segments: Segments,
        }),
      ),
      error: Type.Optional(Type.Object({ code: Type.String(), param: Type.String(), message: Type.String() })),
    }),
  ),
});

/** @throws ApiError not_found */
export function findPersona({ personas }: Services, id: string): Persona {
  const persona = personas.find(id);
  if (persona === undefined) throw ApiError.notFound("There is no such persona.", "id");
  return persona;
}

/** What the store knows of all personas: variants that have stopped themselves, and the last run of each one's tests. */
type Remembered = {
  readonly stopped: readonly Pick<VariantState, "persona" | "version" | "variant">[];
  readonly runs: ReadonlyMap<string, TestRunCounts>;
};

const remembered = ({ store }: Services): Promise<Remembered> =>
  needsStorage(async () => {
    const [stopped, runs] = await Promise.all([store.variants.stopped(), store.testRuns.list()]);
    return { stopped, runs: new Map(runs.map((one) => [one.persona, one])) };
  });

function lastRunJson(run: TestRunCounts | undefined) {
  if (run === undefined) return null;
  const { version, at, passed, failed, errors } = run;
  return { version, started_at: isoTime(at)!, passed, failed, errors };
}

function summaryJson({ live }: Services, persona: Persona, { stopped, runs }: Remembered): Static<typeof Summary> {
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

async function detailsJson(services: Services, persona: Persona) {
  const { greeting = null, variables, defaults, limits, options, stop, tools, examples } = persona;
  const source = (await textOf(persona, services.live.config.personas.folder)) ?? null;
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
    previews: (await services.previews.list()).flatMap((one) => pushedJson(one, persona.id)),
    reports: (await services.reports.list(persona.id)).flatMap((one) => pushedJson(one, persona.id)),
  };
}

/** @returns nothing where a push has no such persona */
const pushedJson = ({ label, personas, keyName, pushedAt, endsAt }: Preview, persona: string) =>
  personas
    .filter(({ id }) => id === persona)
    .map(({ version }) => ({
      ...{ label, version, key_name: keyName, pushed_at: isoTime(pushedAt)!, ends_at: isoTime(endsAt)! },
    }));

async function reportJson(
  { reports }: Services,
  id: string,
  label: string | undefined,
): Promise<Static<typeof Report>> {
  const { info, against, persona } = await reports.find(id, label);
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
  const source = await textOf(found, folder);
  const additions = (of: Persona, request: ChatRequest) =>
    findAdditions(services.knowledge, of, request, { parsed: { ...request } });
  const tools = { clock, media, providers, configured: live.config.providers, additions };
  const places = source && (await placesOf(found, source, folder, variant));
  const rendered = await renderCall(tools, { ...question, persona, places }, signal);
  return { object: "persona.render", variant: variant ?? null, ...rendered };
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
        response: pageSchema(Summary),
        errors: [400, 404],
      }),
    )
    .get(
      "/v1/personas/:namespace/:name",
      ({ services, params: { namespace, name } }) =>
        detailsJson(services, findPersona(services, `${namespace}/${name}`)),
      adminOperation({
        operationId: "adminGetPersona",
        summary: "One persona, with the text of its file",
        params: Type.Object({ namespace: Type.String(), name: Type.String() }),
        response: Details,
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
        response: Report,
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
        response: Rendered,
        errors: writing,
      }),
    );
