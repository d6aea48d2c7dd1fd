/** What the path says: the model, and what is asked of it, in its last part, `models/<name>:<method>`. */

export const methods = [
  "generateContent",
  "streamGenerateContent",
  "countTokens",
  "embedContent",
  "batchEmbedContents",
] as const;
export type Method = (typeof methods)[number];

const marker = "/models/";

/**
 * @param path its name may hold slashes and colons, be percent-encoded, and have the prefix that lists give it
 * @returns `method` is undefined where nothing is asked that there is
 */
export function addressOf(path: string): { readonly model: string; readonly method: Method | undefined } {
  const rest = decoded(path.slice(path.indexOf(marker) + marker.length));
  const colon = rest.lastIndexOf(":");
  const method = methods.find((one) => one === rest.slice(colon + 1));
  return { model: modelIn(method === undefined ? rest : rest.slice(0, colon)), method };
}

/** A model's name as it stands in lists and bodies. */
export function modelIn(name: string): string {
  return name.startsWith("models/") ? name.slice("models/".length) : name;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
