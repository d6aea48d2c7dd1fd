/** Answers that hold keys of AWS: of containers, instances, processes (JSON) and of STS (XML). */
import type { Dated } from "../cached-secret.ts";
import { fieldOf } from "../tools.ts";
import type { AwsKeys } from "./sigv4.ts";

/**
 * @param token the name of the session token's field
 * @throws Error naming who gave what is none
 */
export function awsKeysFrom(body: Readonly<Record<string, unknown>>, token: string, source: string): Dated<AwsKeys> {
  const ending = body["Expiration"];
  const endsAt = typeof ending === "string" ? Date.parse(ending) : undefined;
  if (Number.isNaN(endsAt)) throw new Error(`${source} has an Expiration that is no time`);
  const sessionToken = body[token];
  return {
    source,
    endsAt,
    value: {
      accessKeyId: fieldOf(body, "AccessKeyId", source),
      secretAccessKey: fieldOf(body, "SecretAccessKey", source),
      ...(typeof sessionToken === "string" && sessionToken !== "" && { sessionToken }),
    },
  };
}

/** Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_Credentials.html */
export function keysInXml(xml: string, source: string): Dated<AwsKeys> {
  const fields = ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"];
  const found = fields.map((field) => [field, new RegExp(`<${field}>\\s*([^<\\s]+)\\s*</${field}>`).exec(xml)?.[1]]);
  const body = Object.fromEntries(found);
  for (const field of fields) fieldOf(body, field, source);
  return awsKeysFrom(body, "SessionToken", source);
}
