/** The admin API's routes of previews of personas: those that are kept, and the end of one. */
import { PersonaPreviewDropped, PersonaPreviewList } from "../api/previews.ts";
import { droppedJson, LabelParam, previewJson } from "../http/preview-routes.ts";
import { dropPreview, listPreviews } from "../operate/previews.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

export const previewRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/previews",
      async ({ services }) => ({
        object: "list" as const,
        data: (await listPreviews(services)).map(previewJson),
      }),
      adminOperation({
        operationId: "adminListPreviews",
        summary: "Previews of personas, by their labels",
        response: PersonaPreviewList,
      }),
    )
    .delete(
      "/v1/previews/:label",
      async ({ services, caller, params: { label } }) =>
        droppedJson((await dropPreview(services, caller, label)).before),
      adminOperation({
        operationId: "adminDropPreview",
        summary: "Ends a preview",
        params: LabelParam,
        response: PersonaPreviewDropped,
        errors: [404],
      }),
    );
