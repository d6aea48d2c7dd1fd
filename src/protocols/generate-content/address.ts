/** Reads the model and the method from a path's last part, `models/<name>:<method>`. */

export const methods = [
  "generateContent",
  "streamGenerateContent",
  "countTokens",
  "embedContent",
  "batchEmbedContents",
] as const;
export type Method = (typeof methods)[number];

/** Some clients take a name with a slash for a whole resource, and leave `models/` out. */
const before = /\/(?:v1beta\/(?:models\/)?|v1\/models\/)/;

/**
 * @param path its name may hold slashes and colons, be percent-encoded, and have the prefix that lists give it
 * @returns `method` is undefined where nothing is asked that there is
 */
export function addressOf(path: string): { readonly model: string; readonly method: Method | undefined } {
  const found = before.exec(path);
  const rest = decoded(found === null ? path : path.slice(found.index + found[0].length));
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
