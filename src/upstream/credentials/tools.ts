/** All that sources of credentials reach of the outside: variables, files, commands and token endpoints. */

import type { Environment, ReadFile } from "../../config/variables.ts";
import { parseObject } from "../../lib/json/json.ts";
import type { Clock } from "../../lib/time/clock.ts";
import type { AccessToken } from "./bearer.ts";
import type { Dated } from "./cached-secret.ts";

export type TokenRequest = {
  readonly method: "GET" | "POST" | "PUT";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The machine's own metadata service: asked without a forward proxy, and with little patience. */
  readonly isLocal?: true;
};

export type TokenAnswer = {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly text: string;
};

export type SecretTools = {
  readonly clock: Clock;
  readonly env: Environment;
  readonly readFile: ReadFile;
  /** Runs a shell command. @returns what it wrote @throws Error where it fails */
  readonly run: (command: string) => Promise<string>;
  /** @throws Error where nothing is answered in time */
  readonly ask: (request: TokenRequest) => Promise<TokenAnswer>;
};

/** A source is not set up: the next one is tried. Its message says what is missing. */
export class NotSetUp extends Error {}

/** The value of a variable that is set to something. */
export const variable = ({ env }: Pick<SecretTools, "env">, name: string): string | undefined =>
  env[name]?.trim() || undefined;

/** @throws Error naming the file */
export function readSecretFile({ readFile }: Pick<SecretTools, "readFile">, path: string, from: string): string {
  let text: string | undefined;
  try {
    text = readFile(path);
  } catch (error) {
    throw new Error(`${from} names ${path}, which can't be read: ${(error as Error).message}`);
  }
  if (text === undefined) throw new Error(`${from} names ${path}, which does not exist`);
  return text.trim();
}

/**
 * Asks an endpoint whose answers are JSON objects.
 * @param who names it in errors
 * @throws Error for another status than 2xx, with the error that OAuth and AWS name, and for what is no JSON object
 */
export async function askJson(
  tools: SecretTools,
  who: string,
  request: TokenRequest,
): Promise<Record<string, unknown>> {
  const { status, text } = await asked(tools, who, request);
  const body = parseObject(text);
  if (status < 200 || status > 299) throw new Error(`${who} answered ${status}${reasonOf(body)}`);
  if (body === undefined) throw new Error(`${who} answered with what is no JSON object`);
  return body;
}

/** @throws Error naming who was asked where nothing is answered */
export async function asked(tools: SecretTools, who: string, request: TokenRequest): Promise<TokenAnswer> {
  try {
    return await tools.ask(request);
  } catch (error) {
    throw new Error(`${who} gave no answer (${(error as Error).message})`, { cause: error });
  }
}

/** The error's code, which never holds a secret. Source: https://www.rfc-editor.org/rfc/rfc6749#section-5.2 */
function reasonOf(body: Record<string, unknown> | undefined): string {
  const code = body?.["error"] ?? body?.["Code"] ?? body?.["code"];
  return typeof code === "string" && /^[\w.-]{1,80}$/.test(code) ? ` (${code})` : "";
}

/** @throws Error naming who answered without it */
export function fieldOf(body: Readonly<Record<string, unknown>>, field: string, who: string): string {
  const value = body[field];
  if (typeof value !== "string" || value === "") throw new Error(`${who} has no ${field}`);
  return value;
}

/** A body of `application/x-www-form-urlencoded`. */
export const form = (fields: Readonly<Record<string, string>>) => ({
  headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
  body: new URLSearchParams(fields).toString(),
});

/** An OAuth access token and its end. @throws Error naming who answered without one */
export function oauthToken(body: Readonly<Record<string, unknown>>, who: string, now: number) {
  const token = fieldOf(body, "access_token", who);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error(`${who} gave a token that can't be sent`);
  const seconds = Number(body["expires_in"]);
  if (!(seconds > 0)) throw new Error(`${who} gave a token without expires_in`);
  return { token, endsAt: now + seconds * 1000 };
}

/** Asks a token endpoint for an access token. @param who answers, for errors @throws Error naming them */
export async function grantedToken(
  tools: SecretTools,
  who: string,
  url: string,
  fields: Readonly<Record<string, string>>,
  source: string,
): Promise<Dated<AccessToken>> {
  const body = await askJson(tools, who, { method: "POST", url, ...form(fields) });
  const { token, endsAt } = oauthToken(body, who, tools.clock.now());
  return { value: { token }, endsAt, source };
}
