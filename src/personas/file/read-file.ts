/** Reads the files of a folder of personas. */

export const maxFileBytes = 256 * 1024;

/** One byte more than is allowed, at most: a file that is too large shows by it. */
export const readStart = (path: string): Promise<Uint8Array> =>
  Bun.file(path)
    .slice(0, maxFileBytes + 1)
    .bytes();

export const utf8 = new TextDecoder("utf-8", { fatal: true });

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "it is no folder",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
  ELOOP: "it is a link to itself",
  ERR_ENCODING_INVALID_ENCODED_DATA: "it is not UTF-8",
};

export function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  return reasons[code ?? ""] ?? code ?? message;
}
