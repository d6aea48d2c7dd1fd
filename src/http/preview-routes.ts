/** The routes by which keys with `preview` among their surfaces push, list and drop previews of personas. */
import { Type } from "@sinclair/typebox";
import { ReportUpload } from "../api/persona-reports.ts";
import { PersonaPreview, PersonaPreviewDropped, PersonaPreviewList, PersonaReport } from "../api/previews.ts";
import { admit } from "../call/admit/admit.ts";
import type { Host } from "../call/context.ts";
import { isoTime } from "../lib/time/clock.ts";
import { dropPreview, listPreviews, type Preview, pushPreview } from "../operate/previews.ts";
import { pushReport } from "../operate/reports.ts";
import { PreviewUpload } from "../personas/review/previews.ts";
import { checkedRoutes, documented } from "./checked-routes.ts";
import { keyed, queryOf, tags, writing } from "./openapi/describe.ts";

export const LabelParam = Type.Object({ label: Type.String() });

const membersJson = ({ label, personas, key, keyName, pushedAt, endsAt, bytes }: Preview) => ({
  ...{
    label,
    personas: [...personas],
    key,
    key_name: keyName,
    pushed_at: isoTime(pushedAt),
    ends_at: isoTime(endsAt),
  },
  bytes,
});

export const previewJson = (preview: Preview) => ({ object: "persona.preview" as const, ...membersJson(preview) });

export const droppedJson = ({ label, personas }: Preview) => ({
  object: "persona.preview.dropped" as const,
  ...{ label, personas: personas.length },
});

export const previewRoutes = (host: Host, prefix: string) =>
  checkedRoutes(host, { area: "orchestrator", prefix }, (services, context) =>
    admit(services, context, "orchestrator", { permission: "preview" }),
  )
    .get(
      "/v1/previews",
      async ({ services, caller }) => ({
        object: "list" as const,
        data: (await listPreviews(services, caller)).map(previewJson),
      }),
      documented({
        tag: tags.orchestrator,
        operationId: "listPreviews",
        summary: "Previews of personas that this key may use",
        response: PersonaPreviewList,
        errors: [403, ...keyed],
      }),
    )
    .put(
      "/v1/previews/:label",
      async ({ services, caller, params: { label }, query: { days }, body }) =>
        previewJson((await pushPreview(services, caller, label, body, days)).after),
      documented({
        tag: tags.orchestrator,
        operationId: "pushPreview",
        summary: "Serves personas as <persona>@<label> for a time, in place of the label's preview before",
        params: LabelParam,
        query: queryOf({
          days: Type.Optional(
            Type.Integer({ minimum: 1, maximum: 90, description: "Until its end; default: previews.days." }),
          ),
        }),
        body: PreviewUpload,
        response: PersonaPreview,
        errors: [403, 409, ...keyed, ...writing],
      }),
    )
    .put(
      "/v1/previews/:label/report",
      async ({ services, caller, params: { label }, body }) => ({
        object: "persona.report" as const,
        ...membersJson((await pushReport(services, caller, label, body)).after),
      }),
      documented({
        tag: tags.orchestrator,
        operationId: "pushReport",
        summary: "Keeps what a branch changes in personas, in place of the label's report before",
        description: "The admin API and the console show it on the personas' pages, for previews.days.",
        params: LabelParam,
        body: ReportUpload,
        response: PersonaReport,
        errors: [403, 409, ...keyed, ...writing],
      }),
    )
    .delete(
      "/v1/previews/:label",
      async ({ services, caller, params: { label } }) =>
        droppedJson((await dropPreview(services, caller.keyId, label, caller)).before),
      documented({
        tag: tags.orchestrator,
        operationId: "dropPreview",
        summary: "Ends a preview",
        params: LabelParam,
        response: PersonaPreviewDropped,
        errors: [403, 404, ...keyed],
      }),
    );
