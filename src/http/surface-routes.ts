/** The routes that both surfaces have, each below its own base. */

import type { Caller } from "../auth/keys.ts";
import { mayUseModel } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import { toModel } from "../personas/registry.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Model } from "../protocols/models.ts";
import { admit } from "./authenticate.ts";
import { type ChatSurface, createCompletion } from "./chat.ts";
import { gateway, gatewayModels } from "./gateway.ts";
import { describeCompletion, describeModel, describeModelList } from "./openapi/descriptions.ts";
import { findPersona, orchestrator, visiblePersonas } from "./orchestrator.ts";
import { jsonAnswer } from "./respond.ts";
import { type Route, restOfPath } from "./routes.ts";
import type { Services } from "./services.ts";
import { storedRoutes } from "./stored.ts";

type Catalog = {
  list(services: Services, caller: Caller): Model[];
  find(services: Services, caller: Caller, id: string): Model | undefined;
};

const personaCatalog: Catalog = {
  list: (services, caller) => visiblePersonas(services, caller).map(toModel),
  find: (services, caller, id) => {
    const persona = findPersona(services, caller, id);
    return persona && toModel(persona);
  },
};

const gatewayCatalog: Catalog = {
  list: (services, caller) => gatewayModels(services).filter(({ id }) => mayUseModel(caller, id)),
  find: (services, caller, id) => gatewayCatalog.list(services, caller).find((model) => model.id === id),
};

function routesOf(surface: ChatSurface, catalog: Catalog): Route[] {
  const area = surface.name;
  return [
    {
      method: "GET",
      path: "/v1/models",
      area,
      detail: describeModelList(area),
      run: (services, context) => {
        const caller = admit(services, context, area);
        return jsonAnswer({ object: "list", data: catalog.list(services, caller) });
      },
    },
    {
      method: "GET",
      path: "/v1/models/*",
      area,
      detail: describeModel(area),
      run: (services, context) => {
        const caller = admit(services, context, area);
        const id = restOfPath(context, "/v1/models/");
        const model = catalog.find(services, caller, id);
        if (model === undefined) throw ApiError.modelNotFound(id);
        return jsonAnswer(model);
      },
    },
    {
      method: "POST",
      path: "/v1/chat/completions",
      area,
      detail: describeCompletion(area),
      run: (services, context, finish) => createCompletion(services, context, surface, finish),
    },
    ...storedRoutes(area),
  ];
}

export const surfaceRoutes: Readonly<Record<SurfaceName, readonly Route[]>> = {
  orchestrator: routesOf(orchestrator, personaCatalog),
  gateway: routesOf(gateway, gatewayCatalog),
};
