/** The model routes of both surfaces: personas on the orchestrator, providers' models on the gateway. */
import { type Caller, mayUseModel } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import type { Persona } from "../personas/persona.ts";
import { toModel } from "../personas/registry.ts";
import { ApiError } from "../protocols/errors.ts";
import { formatModelId } from "../protocols/model-id.ts";
import type { Model } from "../protocols/models.ts";
import { admit } from "./authenticate.ts";
import { describeModel, describeModelList } from "./openapi/descriptions.ts";
import { jsonAnswer } from "./respond.ts";
import { type Route, restOfPath } from "./routes.ts";
import type { Services } from "./services.ts";

type Catalog = {
  list(services: Services, caller: Caller): Model[];
  find(services: Services, caller: Caller, id: string): Model | undefined;
};

const catalogs: Readonly<Record<SurfaceName, Catalog>> = {
  orchestrator: {
    list: ({ personas }, caller) =>
      personas
        .visibleTo(caller.tier)
        .list()
        .filter(({ id }) => mayUseModel(caller, id))
        .map(toModel),
    find(services, caller, id) {
      const persona = findPersona(services, caller, id);
      return persona && toModel(persona);
    },
  },
  gateway: {
    list: gatewayModels,
    find: (services, caller, id) => gatewayModels(services, caller).find((model) => model.id === id),
  },
};

export function modelRoutes(surface: SurfaceName): Route[] {
  const { list, find } = catalogs[surface];
  return [
    {
      method: "GET",
      path: "/v1/models",
      area: surface,
      detail: describeModelList(surface),
      run: (services, context) =>
        jsonAnswer({ object: "list", data: list(services, admit(services, context, surface)) }),
    },
    {
      method: "GET",
      path: "/v1/models/*",
      area: surface,
      detail: describeModel(surface),
      run: (services, context) => {
        const caller = admit(services, context, surface);
        const id = restOfPath(context, "/v1/models/");
        const model = find(services, caller, id);
        if (model === undefined) throw ApiError.modelNotFound(id);
        return jsonAnswer(model);
      },
    },
  ];
}

/** @returns undefined also for a persona that the key's tier or globs hide */
export function findPersona(services: Services, caller: Caller, id: string): Persona | undefined {
  return mayUseModel(caller, id) ? services.personas.visibleTo(caller.tier).find(id) : undefined;
}

/** The configured models; a provider may accept others. */
function gatewayModels({ live, build }: Services, caller: Caller): Model[] {
  const created = Math.floor(Date.parse(build.builtAt) / 1000) || 0;
  const models = live.accounts.list().flatMap(({ account }) =>
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
  return models.filter(({ id }) => mayUseModel(caller, id));
}
