/**
 * Signature Version 4 of AWS over the bytes that go out.
 * Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
import { AwsV4Signer } from "aws4fetch";
import type { HttpRequest } from "../../../lib/http/client.ts";
import { folded } from "../../../lib/streams/flow.ts";
import { words } from "../../../lib/text/words.ts";
import type { Clock } from "../../../lib/time/clock.ts";
import type { CachedSecret } from "../cached-secret.ts";
import type { Signer } from "../signer.ts";

export type AwsKeys = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of keys that end. */
  readonly sessionToken?: string | undefined;
};

type SigningScope = {
  readonly keys: AwsKeys;
  readonly region: string;
  readonly service: string;
  /** Unix milliseconds. */
  readonly at: number;
  /** Signing keys of earlier requests, of the same day and keys. */
  readonly cache?: Map<string, ArrayBuffer>;
};

/** Headers that a connection or a proxy in between may write anew. */
const unsigned: ReadonlySet<string> = new Set(
  words("authorization content-length user-agent accept-encoding connection expect transfer-encoding x-amzn-trace-id"),
);

/** @returns the request as it goes out: its path and query stay as they are spelled, and a body in pieces is one */
export async function signV4(request: HttpRequest, { keys, at, ...scope }: SigningScope): Promise<HttpRequest> {
  const body = request.body === undefined ? undefined : await wholeBody(request.body);
  const { accessKeyId, secretAccessKey, sessionToken } = keys;
  const signer = new AwsV4Signer({
    ...scope,
    ...{ accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    method: request.method,
    url: request.url,
    headers: Object.fromEntries(Object.entries(request.headers).filter(([name]) => !unsigned.has(name))),
    allHeaders: true,
    ...(body !== undefined && { body }),
    datetime: new Date(at).toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
  });
  const { headers: signed } = await signer.sign();
  const headers: Record<string, string> = { ...request.headers };
  for (const name of ["authorization", "x-amz-date", "x-amz-security-token"]) {
    const value = signed.get(name);
    if (value !== null) headers[name] = value;
  }
  return { ...request, headers, ...(body !== undefined && { body }) };
}

/** The signature covers all of a body, so one that is streamed is read first. */
async function wholeBody(body: NonNullable<HttpRequest["body"]>): Promise<Buffer<ArrayBuffer>> {
  if (typeof body === "string" || body instanceof Uint8Array) return Buffer.from(body as string);
  const concatenated = (pieces: readonly (string | Uint8Array)[]) =>
    Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
  if (!("source" in body)) return concatenated(body);
  const pieces: Uint8Array[] = [];
  // What it is given is used again.
  return await folded(body.source, {
    push: (piece) => void pieces.push(piece.slice()),
    end: () => concatenated(pieces),
  });
}

/** The region in an address such as `bedrock-runtime.us-east-1.amazonaws.com`. Source: https://docs.aws.amazon.com/general/latest/gr/bedrock.html */
export const regionIn = (url: string): string | undefined =>
  /^https?:\/\/(?:[^/]+\.)?[a-z0-9-]+\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)(?:[:/]|$)/.exec(
    url,
  )?.[1];

type SigV4Options = {
  readonly clock: Clock;
  readonly service: string;
  /** Where the address names none. */
  readonly region: string;
};

export class SigV4Signer implements Signer {
  readonly #keys: CachedSecret<AwsKeys>;
  readonly #options: SigV4Options;
  #cache = new Map<string, ArrayBuffer>();

  constructor(keys: CachedSecret<AwsKeys>, options: SigV4Options) {
    this.#keys = keys;
    this.#options = options;
  }

  async sign(request: HttpRequest): Promise<HttpRequest> {
    const { clock, service, region } = this.#options;
    const keys = await this.#keys.get();
    // One for each region and day.
    if (this.#cache.size > 64) this.#cache = new Map();
    const scope = { keys, service, region: regionIn(request.url) ?? region, at: clock.now(), cache: this.#cache };
    return signV4(request, scope);
  }

  refused({ authorization = "", "x-amz-security-token": token }: HttpRequest["headers"]): void {
    this.#keys.refused(
      ({ accessKeyId, sessionToken }) => token === sessionToken && authorization.includes(`Credential=${accessKeyId}/`),
    );
  }

  isIn(text: string): boolean {
    const keys = this.#keys.held?.value;
    const secrets = [keys?.secretAccessKey, keys?.sessionToken];
    return secrets.some((secret) => secret !== undefined && text.includes(secret));
  }

  async source(): Promise<string> {
    await this.#keys.get();
    return this.#keys.held!.source;
  }
}
