/** The admin API's playground: calls of models and personas by whoever is signed in, and what they would send. */
import { Type } from "@sinclair/typebox";
import { PlaygroundModel, PlaygroundPreview } from "../../api/playground.ts";
import { pageSchema } from "../../api/shape.ts";
import { idleTimeoutOf } from "../../call/call.ts";
import type { Host, RequestContext } from "../../call/context.ts";
import { readWhole } from "../../call/read/request-body.ts";
import type { Services } from "../../call/services.ts";
import { completeInside } from "../../http/inside.ts";
import {
  type DescribedOperation,
  describeOperation,
  eventStream,
  keyed,
  queryOf,
  writing,
} from "../../http/openapi/describe.ts";
import { Open } from "../../lib/json/schemas.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { asCame, type Source } from "../../protocols/body/source.ts";
import { type AdminPlugin, actingCaller } from "../act.ts";
import { adminOperation, page, text } from "../pages.ts";
import { choicesFor, priced } from "./choices.ts";
import { servicesForAll, surfaceOf } from "./surface.ts";

const Body = Open(
  {
    model: Type.String({
      description: "<provider>/<model>, an alias, or <namespace>/<persona>, alone or with @ and a version or label.",
    }),
    messages: Type.Array(Type.Object({})),
    stream: Type.Optional(Type.Boolean()),
  },
  { description: "A chat completion, as the gateway and the orchestrator take it." },
);
const question = {
  question: {
    summary: "A question",
    value: {
      model: "troupe/guide",
      messages: [{ role: "user", content: "Hello!" }],
      stream: true,
      usage: { include: true },
    },
  },
};
const Completion = Open({ object: Type.Literal("chat.completion"), choices: Type.Array(Type.Object({})) });

/** Its body is described alone: it is checked as that of any completion, with the same errors. */
function completionOperation(operation: Omit<DescribedOperation, "tag" | "body">) {
  const described = { ...operation, tag: "Admin", body: Body, examples: question };
  const errors = [...keyed, ...(operation.errors ?? [])];
  return { ...adminOperation(operation), detail: { describe: () => describeOperation({ ...described, errors }) } };
}

async function readBody(services: Services, context: RequestContext): Promise<Source & { readonly body: string }> {
  const source = await readWhole(context, services.live.config.limits);
  return { parsed: source.parsed, body: await new Blob([asCame(source)].flat()).text() };
}

/** @param host of the calls */
export const playgroundRoutes = (host: Host) => (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/playground/models",
      async ({ services, query: { search = "", first = "", limit } }) => {
        const found = page(await choicesFor(services, search, first.split(",")), limit, ({ id }) => id);
        return { ...found, data: priced(services, found.data) };
      },
      adminOperation({
        operationId: "adminListPlaygroundModels",
        summary: "Whom the playground can ask, by parts of their names: personas, aliases and models",
        query: queryOf({
          search: Type.Optional(
            Type.String({
              maxLength: 300,
              description:
                "Words that an id, or a persona's description, has to hold. With <persona>@: its labels and versions.",
            }),
          ),
          first: text("Ids that go before all others, with commas."),
          limit: Type.Integer({ minimum: 1, maximum: 1000, default: 20 }),
        }),
        response: pageSchema(PlaygroundModel),
        errors: [400, 503],
      }),
    )
    .post(
      "/v1/playground/chat/completions",
      async ({ services, context, request: { signal }, operator }) => {
        const caller = actingCaller(context);
        const { body, parsed } = await readBody(services, context);
        const { model, stream } = parsed;
        const surface = surfaceOf(services, model);
        const { keepAliveSeconds } = services.live.config.streams;
        context.setIdleTimeout(stream === true ? idleTimeoutOf(keepAliveSeconds) : 0);
        const answer = await completeInside(host, {
          ...{
            surface,
            caller,
            permission: "admin",
            body,
            signal,
            client: "troupe-playground",
            services: servicesForAll(services),
          },
          path: surface.name === "gateway" ? "/gateway/v1/chat/completions" : "/v1/chat/completions",
        });
        const { status, headers } = answer;
        try {
          const subject = typeof model === "string" ? truncate(model) : "";
          const after = { request_id: headers.get("x-request-id"), stream: stream === true, status };
          await operator.record({ act: "playground.call", subject, after });
        } catch (error) {
          await answer.body?.cancel();
          throw error;
        }
        // The call's own id and limits go first; what keeps an answer to its page stays.
        const own = { ...context.headers, ...Object.fromEntries(headers), "cache-control": "no-store, no-transform" };
        context.finish(status);
        return new Response(answer.body, { status, headers: own });
      },
      completionOperation({
        operationId: "adminPlaygroundCompletion",
        summary: "A chat completion of a model or persona by whoever is signed in, as JSON or a stream",
        description:
          "The call is that of the key that asks, in its limits and budgets and in the ledger. Errors are those of the gateway and the orchestrator, an upstream's own byte for byte.",
        response: Completion,
        also: eventStream(),
        errors: [404, 504, ...writing],
      }),
    )
    .post(
      "/v1/playground/preview",
      async ({ services: own, context }) => {
        const { previewOfCall } = await import("./preview.ts");
        const services = servicesForAll(own);
        const source = await readBody(services, context);
        const surface = surfaceOf(services, source.parsed["model"]);
        return previewOfCall({ services, context, surface, caller: actingCaller(context), source });
      },
      completionOperation({
        operationId: "adminPreviewPlayground",
        summary: "What the same call would send to each model, without its secrets, and what became of each field",
        description: "Nothing is sent, but for media that a provider takes no URLs of, which are fetched as in a call.",
        response: PlaygroundPreview,
        errors: [404, ...writing],
      }),
    );
