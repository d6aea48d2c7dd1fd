const typesByExtension: Readonly<Record<string, string>> = {
  pdf: "application/pdf",
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
  heic: "image/heic",
  heif: "image/heif",
  gif: "image/gif",
  wav: "audio/wav",
  mp3: "audio/mp3",
  flac: "audio/flac",
  ogg: "audio/ogg",
  aac: "audio/aac",
  mp4: "video/mp4",
  webm: "video/webm",
  mov: "video/quicktime",
  txt: "text/plain",
  md: "text/markdown",
  csv: "text/csv",
  html: "text/html",
  json: "application/json",
  xml: "text/xml",
};

/** The type that a file's name or URL stands for; undefined where its extension says nothing. */
export function typeByName(name: string): string | undefined {
  const extension = /\.(\w+)$/.exec(name)?.[1]?.toLowerCase();
  return extension !== undefined && Object.hasOwn(typesByExtension, extension)
    ? typesByExtension[extension]
    : undefined;
}

/** Of a file in base64: by its name, then by its beginning. */
export const typeOfFile = (name: string | undefined, base64: string): string =>
  typeByName(name ?? "") ?? typeOfBase64(base64) ?? "application/pdf";

const textTypes =
  /^text\/|^application\/(?:[\w.-]+\+)?(?:json|jsonl|ndjson|xml|yaml|toml|sql|rtf|csv|(?:x-)?(?:javascript|ecmascript|typescript|python|sh|yaml|httpd-php|tex|ndjson))$/;

/** True where a file of the type is a text, that is as many tokens as it has words. @param type without parameters */
export const isTextType = (type: string): boolean => textTypes.test(type.trim().toLowerCase());

const untyped = new Set(["", "application/octet-stream", "binary/octet-stream"]);

/** True for what is said where nobody knows the type. */
export const isUntyped = (type: string): boolean => untyped.has(type);

/** File signatures, each with its offset. Source: https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern */
const signatures: readonly (readonly [signature: string, at: number, mimeType: string])[] = [
  ["\x89PNG\r\n\x1a\n", 0, "image/png"],
  ["\xff\xd8\xff", 0, "image/jpeg"],
  ["GIF8", 0, "image/gif"],
  ["WEBP", 8, "image/webp"],
  ["ftypheic", 4, "image/heic"],
  ["ftypmif1", 4, "image/heif"],
  ["%PDF-", 0, "application/pdf"],
  ["WAVE", 8, "audio/wav"],
  ["ID3", 0, "audio/mpeg"],
  ["fLaC", 0, "audio/flac"],
  ["OggS", 0, "audio/ogg"],
  ["ftyp", 4, "video/mp4"],
];

/** The type that a file of bytes begins as; undefined for texts, and for others. */
export function sniffedType(bytes: Buffer): string | undefined {
  const head = bytes.toString("latin1", 0, 16);
  return signatures.find(([signature, at]) => head.startsWith(signature, at))?.[2];
}

/** The first bytes, and no more: of a large file, only its beginning may be there. */
const headCharacters = 24;
/** What has a character that is in no text is no text: the first letters alone may begin a word. */
const isBinary = /^%PDF-|[\0-\x08\x0e-\x1a\x80-\xff]/;

/** The type of bytes in base64 that nothing names; undefined for texts, and for others. */
export function typeOfBase64(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, headCharacters), "base64");
  return isBinary.test(head.toString("latin1")) ? sniffedType(head) : undefined;
}
