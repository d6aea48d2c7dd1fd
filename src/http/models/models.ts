/** The model routes of both surfaces: personas on the orchestrator, providers' models on the gateway. */
import { type Caller, mayUseModel } from "../../auth/keys.ts";
import { admit } from "../../call/admit/admit.ts";
import { mayUseNamed, standsFor } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import type { Edition, TaggedList } from "../../call/model-pages.ts";
import { findPersona, mayUseVersions, preparePersona } from "../../call/plan/personas.ts";
import { plainQuery } from "../../call/read/plain-values.ts";
import { jsonAnswer, jsonType, namesTag } from "../../call/relay/relay.ts";
import type { Services } from "../../call/services.ts";
import type { SurfaceName } from "../../config/config.ts";
import type { Persona } from "../../personas/persona.ts";
import { splitReference } from "../../personas/versions/references.ts";
import { toModel } from "../../personas/versions/registry.ts";
import { ApiError } from "../../protocols/errors.ts";
import { addressOf } from "../../protocols/generate-content/address.ts";
import { generateContent } from "../../protocols/generate-content/generate-content.ts";
import { modelEntry, modelEntryPage } from "../../protocols/generate-content/models.ts";
import { messages } from "../../protocols/messages/messages.ts";
import { modelInfo, modelPage } from "../../protocols/messages/models.ts";
import { formatModelId, parseModelId } from "../../protocols/model-id.ts";
import type { Model } from "../../protocols/models.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { describeModelEntries, describeModelEntry } from "../openapi/generate-content.ts";
import { describeModel, describeModelList } from "../openapi/models.ts";
import type { Description, Route } from "../routes.ts";
import { havingAll, listedNames, modelFacts } from "./model-facts.ts";

type Catalog = {
  list(services: Services, caller: Caller): Model[];
  find(services: Services, caller: Caller, id: string): Model | undefined;
};

const catalogs: Readonly<Record<SurfaceName, Catalog>> = {
  orchestrator: {
    list: (services, caller) => [
      ...personasFor(services, caller).map(([name, persona]) => ({ ...toModel(persona), id: name })),
      ...aliasesOf(services, (name) => findPersonaModel(services, caller, name)),
    ],
    find: findPersonaModel,
  },
  gateway: {
    list: (services, caller) => [
      ...gatewayModels(services).filter(({ id }) => mayUseModel(caller, id)),
      ...aliasesOf(services, (name) => findCallable(services, caller, name)),
    ],
    find: (services, caller, id) =>
      gatewayModels(services).find((model) => model.id === id && mayUseModel(caller, id)) ??
      findCallable(services, caller, id),
  },
};

/**
 * The personas that a key may use, by the names that it may call them by: their ids, and where it is limited to labels or versions
 * (`acme/*@stable`) those.
 */
export function personasFor({ personas }: Services, caller: Caller): [name: string, persona: Persona][] {
  const visible = personas.visibleTo(caller.tier);
  const labels = [...(personas.labels?.keys() ?? [])];
  const named = [...labels, ...caller.models].filter(
    (name) => mayUseModel(caller, name) && !mayUseVersions(caller, name) && splitReference(name) !== undefined,
  );
  return [
    ...visible.list().flatMap((one): [string, Persona][] => (mayUseModel(caller, one.id) ? [[one.id, one]] : [])),
    ...[...new Set(named)].toSorted().flatMap((name): [string, Persona][] => {
      const found = visible.find(name);
      return found === undefined ? [] : [[name, found]];
    }),
  ];
}

/** Prices may change by the time of day: so long one that is announced may come late. */
const freshMs = 60_000;

const editionOf = ({ live, modelLists, personas, clock }: Services): Edition => [
  live,
  modelLists.edition,
  personas.edition,
  Math.floor(clock.now() / freshMs),
];

/** Another key, or another client's format, has another list at the same address. */
const vary = "authorization, x-api-key, x-goog-api-key, api-key, anthropic-version, x-goog-api-client";

/** @returns 304 where the request names the tag */
function answerTagged({ body, tag }: TaggedList, context: RequestContext): WholeAnswer {
  const before = context.headers["vary"];
  if (before !== undefined) context.headers["vary"] = `${before}, ${vary}`;
  const headers = { etag: tag, "cache-control": "private, no-cache", vary };
  if (namesTag(context.request.headers, tag)) return { kind: "whole", status: 304, headers, body: "" };
  return { kind: "whole", status: 200, headers: { ...headers, ...jsonType }, body };
}

/** What decides which models a key sees: keys that are alike in it see the same. The versions that it pins are there once they were prepared. */
const whatSees = ({ personas }: Services, { tier, models }: Caller): readonly string[] => [
  tier,
  ...models,
  "",
  ...models.filter((name) => splitReference(name) !== undefined && personas.find(name) !== undefined),
];

/** The aliases that have a name of their own, as models. */
function aliasesOf({ live }: Services, find: (name: string) => Model | undefined): Model[] {
  return live.aliases.list().flatMap(([name]) => find(name) ?? []);
}

function findPersonaModel(services: Services, caller: Caller, id: string): Model | undefined {
  const persona = findPersona(services, caller, id);
  return persona && { ...toModel(persona), id };
}

/** Finds a model that a provider may have: it has more than those that are listed, unless it is compiled in. */
function findCallable(services: Services, caller: Caller, id: string): Model | undefined {
  const meant = standsFor(services, id);
  const model = mayUseNamed(caller, id, meant) ? findModel(services, meant) : undefined;
  return model && { ...model, id, name: id };
}

/** @param id `<provider>/<model>` */
function findModel(services: Services, id: string): Model | undefined {
  const { namespace, name } = parseModelId(id) ?? {};
  const bound = namespace === undefined ? undefined : services.live.accounts.find(namespace);
  if (bound === undefined) return undefined;
  if (bound.provider.kind === "local" && !bound.account.models.includes(name!)) return undefined;
  const [listed, now] = [services.modelLists.find(bound, name!), services.clock.now()];
  return {
    id,
    object: "model",
    created: listed?.created ?? builtAt(services),
    owned_by: bound.account.name,
    name: id,
    ...modelFacts(bound, name!, { listed, prices: services.live.prices, now }),
  };
}

const variants: NonNullable<Route["variants"]> = [
  // Anthropic's clients send it always: https://platform.claude.com/docs/en/api/versioning
  { header: "anthropic-version", protocol: messages },
  // So do Google's: https://github.com/googleapis/js-genai
  { header: "x-goog-api-client", protocol: generateContent },
];

/** Writes a model, and a page of them, in each format. */
function formOf({ protocol }: RequestContext) {
  if (protocol === messages) return { one: modelInfo, page: modelPage };
  if (protocol === generateContent) return { one: modelEntry, page: modelEntryPage };
  return { one: (model: Model) => model, page: (data: Model[]) => ({ object: "list", data }) };
}

export function modelRoutes(surface: SurfaceName): Route[] {
  return [
    ...routesAt("/v1/models", surface, { variants }, describeModelList, describeModel),
    ...routesAt("/v1beta/models", surface, { protocol: generateContent }, describeModelEntries, describeModelEntry),
  ];
}

type Describe = (surface: SurfaceName) => Description;

function routesAt(
  path: string,
  surface: SurfaceName,
  spoken: Pick<Route, "protocol" | "variants">,
  describeList: Describe,
  describeOne: Describe,
): Route[] {
  const { list, find } = catalogs[surface];
  const shared = { method: "GET", area: surface, ...spoken } as const;
  return [
    {
      ...shared,
      path,
      describe: () => describeList(surface),
      run: async (services, context) => {
        const caller = await admit(services, context, surface);
        if (surface === "orchestrator") await prepareNamed(services, caller);
        const query = plainQuery(context);
        const view = [surface, context.protocol.name, query.toString(), ...whatSees(services, caller)];
        const page = services.modelPages.page(editionOf(services), view, () => {
          const has = query.get("has");
          const isWanted = has === null ? undefined : havingAll(has);
          const models = list(services, caller).filter(
            (model) => isWanted?.(abilitiesOf(services, caller, surface, model)) ?? true,
          );
          return formOf(context).page(models, query);
        });
        return answerTagged(page, context);
      },
    },
    {
      ...shared,
      path: `${path}/*`,
      describe: () => describeOne(surface),
      run: async (services, context) => {
        const caller = await admit(services, context, surface, { mayPreview: true });
        const { model: id } = addressOf(context.path);
        if (surface === "orchestrator") await preparePersona(services, id);
        const model = find(services, caller, id);
        if (model === undefined) throw ApiError.modelNotFound(id);
        return jsonAnswer(formOf(context).one(model));
      },
    },
  ];
}

/** A persona can what its first model can. */
function abilitiesOf(
  services: Services,
  caller: Caller,
  surface: SurfaceName,
  model: Model,
): Pick<Model, "capabilities"> {
  const target = surface === "orchestrator" ? findPersona(services, caller, model.id)?.targets[0] : undefined;
  return target === undefined ? model : (findModel(services, target) ?? {});
}

/** What a key may call on a surface: what its list of models has, and what it names itself. @throws ApiError storage_unavailable */
export async function modelsFor(services: Services, surface: SurfaceName, caller: Caller): Promise<Model[]> {
  if (surface === "orchestrator") await prepareNamed(services, caller);
  const { list, find } = catalogs[surface];
  const listed = list(services, caller);
  // A key may name a model that its provider does not list, or has not listed yet.
  const named = caller.models.filter((name) => !name.includes("*") && !listed.some(({ id }) => id === name));
  return [...listed, ...named.flatMap((name) => find(services, caller, name) ?? [])];
}

/** The same for all that a key names, one by one: before `personasFor`. */
export async function prepareNamed(services: Services, caller: Caller): Promise<void> {
  for (const name of caller.models) if (splitReference(name) !== undefined) await preparePersona(services, name);
}

const builtAt = ({ build }: Services): number => Math.floor(Date.parse(build.builtAt) / 1000) || 0;

/** The ids of `gatewayModels` alone, which take a fraction of the time. */
export const gatewayModelIds = ({ live, modelLists }: Services): string[] =>
  live.accounts
    .list()
    .flatMap((bound) =>
      listedNames(bound, modelLists.of(bound)).map((name) => formatModelId({ namespace: bound.account.name, name })),
    );

/** The dollars per million tokens of a model, by which its calls are charged; undefined: unknown. */
export function pricingOf(services: Services, id: string) {
  const { namespace = "", name = "" } = parseModelId(id) ?? {};
  const bound = services.live.accounts.find(namespace);
  if (bound === undefined) return undefined;
  const listed = services.modelLists.of(bound)?.models.get(name);
  return modelFacts(bound, name, { listed, prices: services.live.prices, now: services.clock.now() }).pricing;
}

/** The models that are configured, else those that providers list, else well-known ones; a provider may accept others. */
export const gatewayModels = (services: Services): readonly Model[] =>
  services.modelPages.models(editionOf(services), () => describedModels(services));

function describedModels(services: Services): Model[] {
  const { live, modelLists } = services;
  const created = builtAt(services);
  const now = services.clock.now();
  return live.accounts.list().flatMap((bound) => {
    const { account } = bound;
    const list = modelLists.of(bound);
    return listedNames(bound, list).map((name): Model => {
      const listed = list?.models.get(name);
      return {
        id: formatModelId({ namespace: account.name, name }),
        object: "model",
        created: listed?.created ?? created,
        owned_by: account.name,
        // Several accounts may have models of one name.
        name: `${name} (${account.name})`,
        ...modelFacts(bound, name, { listed, prices: live.prices, now }),
      };
    });
  });
}
