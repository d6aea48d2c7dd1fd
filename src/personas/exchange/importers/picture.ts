/** Pictures that a file names or holds. */
import type { Imported, Omissions } from "./draft.ts";
import { ImportError } from "./source.ts";

export type Picture = {
  /** An https address. */
  readonly address?: string;
  readonly avatar?: NonNullable<Imported["avatar"]>;
};

const extensions: Readonly<Record<string, string>> = {
  png: "png",
  jpeg: "jpg",
  webp: "webp",
  gif: "gif",
  avif: "avif",
};

/** @param place of the address in its file @throws ImportError for a data URL that is no base64 */
export function pictureOf(url: string | undefined, place: string, omissions: Omissions): Picture {
  if (url === undefined || url === "") return {};
  if (/^https:\/\/\S{1,2000}$/.test(url)) return { address: url };
  const [head = "", kind = ""] = /^data:image\/([a-z]+);base64,/.exec(url.slice(0, 64)) ?? [];
  if (!Object.hasOwn(extensions, kind)) {
    omissions.add(place, "is no picture in the file, and no https address");
    return {};
  }
  try {
    return { avatar: { extension: extensions[kind]!, bytes: Uint8Array.fromBase64(url.slice(head.length)) } };
  } catch {
    throw new ImportError(place, "is not base64");
  }
}
