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

const textTypes =
  /^text\/|^application\/(?:[\w.-]+\+)?(?:json|jsonl|ndjson|xml|yaml|toml|sql|rtf|csv|(?:x-)?(?:javascript|ecmascript|typescript|python|sh|yaml|httpd-php|tex|ndjson))$/;

/** True where a file of the type is a text, that is as many tokens as it has words. @param type without parameters */
export const isTextType = (type: string): boolean => textTypes.test(type.trim().toLowerCase());
