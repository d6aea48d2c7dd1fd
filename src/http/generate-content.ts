/** The routes of Gemini's clients: what is asked of a model stands behind its name, `models/<name>:<method>`. */

import { admit, admitAnyone } from "../call/admit/admit.ts";
import { answerCall } from "../call/call.ts";
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import type { Surface } from "../call/surface.ts";
import type { SurfaceName } from "../config/config.ts";
import { ApiError } from "../protocols/errors.ts";
import { addressOf, methods } from "../protocols/generate-content/address.ts";
import { generateContent, generateContentCount } from "../protocols/generate-content/generate-content.ts";
import { endingsOf } from "./openapi/generate-content.ts";
import { embedContent } from "./relay/embed-content.ts";
import { countTokens } from "./relay/token-count.ts";
import { nothingAt, type Route } from "./routes.ts";

/**
 * Google's newest API, whose routes are described, the older one, that some clients ask for the same, and names with a slash, which two
 * clients take for whole resources: https://github.com/vercel/ai (`getModelPath`), https://github.com/langchain-ai/langchainjs
 */
const [newest, older] = ["/v1beta/models/*", "/v1/models/*"] as const;
const short = "/v1beta/:namespace/*";

/**
 * Checks that a path's second segment, as it was sent, is where a model's name begins: any other path may be one that a proxy in front
 * keeps closed, spelled in another way. @throws ApiError not_found, or rejects with it
 */
async function checkNamespace(services: Services, context: RequestContext, area: SurfaceName): Promise<void> {
  const { params } = context.request as Request & { readonly params?: { readonly namespace?: string } };
  const name = params?.namespace ?? "";
  const isSent = context.path.includes(`/v1beta/${name}/`);
  const isKnown =
    area === "gateway"
      ? services.live.accounts.find(name) !== undefined
      : services.personas.list().some(({ id }) => id.startsWith(`${name}/`));
  if (isSent && isKnown) return;
  await admitAnyone(services, context);
  throw nothingAt(context);
}

const totalTokens = (tokens: number) => ({ totalTokens: tokens });

export function generateContentRoutes(surface: Surface): Route[] {
  const { name: area } = surface;
  const run: Route["run"] = async (services, context) => {
    switch (addressOf(context.path).method) {
      case "generateContent":
      case "streamGenerateContent":
        return answerCall(services, context, surface, generateContent);
      case "countTokens":
        return countTokens(services, context, surface, generateContentCount, totalTokens);
      case "embedContent":
      case "batchEmbedContents":
        return embedContent(services, context, surface);
      default:
        await admit(services, context, area);
        throw ApiError.notFound(`A model has no such method here: it has ${methods.join(", ")}.`);
    }
  };
  const endings = () => endingsOf(area);
  // Other spellings take the same query.
  const describe = () => ({
    hide: true,
    parameters: Object.values(endings()).flatMap((operation) => operation["parameters"] ?? []),
  });
  const shared = { method: "POST", area, protocol: generateContent, describe, run } as const;
  return [
    { ...shared, path: newest, endings },
    { ...shared, path: older },
    {
      ...shared,
      path: short,
      async run(services, context) {
        await checkNamespace(services, context, area);
        return run(services, context);
      },
    },
  ];
}
