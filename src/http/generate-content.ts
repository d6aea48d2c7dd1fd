/** The routes of Gemini's clients: what is asked of a model stands behind its name, `models/<name>:<method>`. */
import { ApiError } from "../protocols/errors.ts";
import { addressOf, methods } from "../protocols/generate-content/address.ts";
import { generateContent, generateContentCount } from "../protocols/generate-content/generate-content.ts";
import { admit } from "./authenticate.ts";
import { createCompletion, type Surface } from "./completion.ts";
import { embedContent } from "./embed-content.ts";
import { endingsOf } from "./openapi/generate-content.ts";
import type { Route } from "./routes.ts";
import { countTokens } from "./token-count.ts";

/** Google's newest API, whose routes are described, and the older one, that some clients ask for the same. */
const [newest, older] = ["/v1beta/models/*", "/v1/models/*"] as const;

const totalTokens = (tokens: number) => ({ totalTokens: tokens });

export function generateContentRoutes(surface: Surface): Route[] {
  const { name: area } = surface;
  const run: Route["run"] = async (services, context, finish) => {
    switch (addressOf(context.path).method) {
      case "generateContent":
      case "streamGenerateContent":
        return createCompletion(services, context, surface, generateContent, finish);
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
  const shared = { method: "POST", area, protocol: generateContent, detail: { hide: true }, run } as const;
  return [
    { ...shared, path: newest, endings: endingsOf(area) },
    { ...shared, path: older },
  ];
}
