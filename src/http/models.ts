/** The model routes of both surfaces: personas on the orchestrator, providers' models on the gateway. */
import { type Caller, mayUseModel } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import type { Persona } from "../personas/persona.ts";
import { toModel } from "../personas/registry.ts";
import { ApiError } from "../protocols/errors.ts";
import { messages } from "../protocols/messages/messages.ts";
import { modelInfo, modelPage } from "../protocols/messages/models.ts";
import { formatModelId, parseModelId } from "../protocols/model-id.ts";
import type { Model } from "../protocols/models.ts";
import { mayUseNamed, standsFor } from "./aliases.ts";
import { admit } from "./authenticate.ts";
import { describeModel, describeModelList } from "./openapi/models.ts";
import { jsonAnswer } from "./respond.ts";
import { type Route, restOfPath } from "./routes.ts";
import type { Services } from "./services.ts";

type Catalog = {
  list(services: Services, caller: Caller): Model[];
  find(services: Services, caller: Caller, id: string): Model | undefined;
};

const catalogs: Readonly<Record<SurfaceName, Catalog>> = {
  orchestrator: {
    list: (services, caller) => [
      ...services.personas
        .visibleTo(caller.tier)
        .list()
        .filter(({ id }) => mayUseModel(caller, id))
        .map(toModel),
      ...aliasesOf(services, (name) => findPersonaModel(services, caller, name)),
    ],
    find: findPersonaModel,
  },
  gateway: {
    list: (services, caller) => [
      ...gatewayModels(services).filter(({ id }) => mayUseModel(caller, id)),
      ...aliasesOf(services, (name) => findAliasedModel(services, caller, name)),
    ],
    find: (services, caller, id) =>
      gatewayModels(services).find((model) => model.id === id && mayUseModel(caller, id)) ??
      findAliasedModel(services, caller, id),
  },
};

/** The aliases that have a name of their own, as models. */
function aliasesOf({ live }: Services, find: (name: string) => Model | undefined): Model[] {
  return live.aliases.list().flatMap(([name]) => find(name) ?? []);
}

function findPersonaModel(services: Services, caller: Caller, id: string): Model | undefined {
  const persona = findPersona(services, caller, id);
  return persona && { ...toModel(persona), id };
}

/** An alias of a provider's model, be it one that is not listed. */
function findAliasedModel(services: Services, caller: Caller, id: string): Model | undefined {
  const meant = services.live.aliases.find(id);
  const provider = meant === undefined ? undefined : parseModelId(meant)?.namespace;
  if (meant === undefined || provider === undefined || !mayUseNamed(caller, id, meant)) return undefined;
  if (services.live.accounts.find(provider) === undefined) return undefined;
  return { id, object: "model", created: builtAt(services), owned_by: provider, name: id };
}

/** Anthropic's clients send it always. Source: https://platform.claude.com/docs/en/api/versioning */
const forAnthropicsClients = { header: "anthropic-version", protocol: messages };

export function modelRoutes(surface: SurfaceName): Route[] {
  const { list, find } = catalogs[surface];
  return [
    {
      method: "GET",
      path: "/v1/models",
      area: surface,
      variant: forAnthropicsClients,
      detail: describeModelList(surface),
      run: (services, context) => {
        const models = list(services, admit(services, context, surface));
        return jsonAnswer(
          context.protocol === messages ? modelPage(models, context.query) : { object: "list", data: models },
        );
      },
    },
    {
      method: "GET",
      path: "/v1/models/*",
      area: surface,
      variant: forAnthropicsClients,
      detail: describeModel(surface),
      run: (services, context) => {
        const caller = admit(services, context, surface);
        const id = restOfPath(context, "/v1/models/");
        const model = find(services, caller, id);
        if (model === undefined) throw ApiError.modelNotFound(id);
        return jsonAnswer(context.protocol === messages ? modelInfo(model) : model);
      },
    },
  ];
}

/** @returns undefined also for a persona that the key's tier or globs hide */
export function findPersona(services: Services, caller: Caller, id: string): Persona | undefined {
  const meant = standsFor(services, id);
  return mayUseNamed(caller, id, meant) ? services.personas.visibleTo(caller.tier).find(meant) : undefined;
}

const builtAt = ({ build }: Services): number => Math.floor(Date.parse(build.builtAt) / 1000) || 0;

/** The configured models; a provider may accept others. */
function gatewayModels(services: Services): Model[] {
  const created = builtAt(services);
  return services.live.accounts.list().flatMap(({ account }) =>
    account.models.map(
      (name): Model => ({
        id: formatModelId({ namespace: account.name, name }),
        object: "model",
        created,
        owned_by: account.name,
        // Several accounts may have models of one name.
        name: `${name} (${account.name})`,
      }),
    ),
  );
}
