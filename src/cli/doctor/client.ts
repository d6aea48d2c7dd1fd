/** `troupe doctor --client`: what a client meets on its way to a running server. */
import type { Check } from "../../operate/doctor/check.ts";
import type { ClientName } from "../../operate/doctor/clients/contracts.ts";
import { Examination } from "../../operate/doctor/clients/examine.ts";
import { type Context, UsageError } from "../context.ts";

export type ClientOptions = {
  readonly client?: ClientName;
  readonly url?: string;
  readonly key?: string;
  /** Seconds. */
  readonly silence?: number;
  readonly json?: boolean;
};

/** @throws UsageError for an address or a key that can't be one */
export function examineClient(
  { io: { env } }: Context,
  client: ClientName,
  {
    url: given = "http://127.0.0.1:8080/gateway",
    key = env["TROUPE_KEY"] || env["TROUPE_API_KEY"],
    silence = 20,
  }: ClientOptions,
): Promise<Check[]> {
  const parsed = URL.parse(given);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw new UsageError(`--url: '${given}' is no address such as https://troupe.example.com/gateway.`);
  if (key === undefined) throw new UsageError("--client needs an API key: --key, or TROUPE_KEY in the environment.");
  // With or without the version, as clients differ in it; models are at the gateway.
  const path = parsed.pathname.replace(/\/(?:v1(?:beta)?\/?)?$/, "");
  const url = parsed.origin + (path === "" ? "/gateway" : path);
  return new Examination({ client, url, key, silenceMs: silence * 1000 }).run();
}
