/** The admin API's route of the nodes that serve, and how they differ. */
import { Nodes, parts } from "../api/nodes.ts";
import type { Services } from "../call/services.ts";
import { configVersion } from "../config/version.ts";
import type { ServingNode } from "../observability/node-versions.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

/** With SQLite there is one, which nobody compares. */
function servingNodes({ comparison, build, live, personas }: Services): readonly ServingNode[] {
  if (comparison !== undefined) return comparison.all;
  const { version, commit } = build;
  const configuration = configVersion(live.config);
  return [{ node: "this", program: `${version} ${commit}`, configuration, personas: personas.version }];
}

export const nodeRoutes = (plugin: AdminPlugin) =>
  plugin.get(
    "/v1/nodes",
    ({ services }) => {
      const nodes = servingNodes(services);
      const [own] = nodes;
      const data = nodes.map((one) => ({
        object: "node" as const,
        id: one.node,
        is_this: one === own,
        ...{ program: one.program, configuration: one.configuration, personas: one.personas },
        differs: parts.filter((part) => one[part] !== own![part]),
      }));
      const store = services.store.database === undefined ? ("sqlite" as const) : ("postgres" as const);
      return { object: "list" as const, store, data };
    },
    adminOperation({
      operationId: "adminListNodes",
      summary: "The nodes that have reported within the last minute, and how they differ from the one that answers",
      response: Nodes,
    }),
  );
