/**
 * Stand-ins of Entra ID and of managed identities. Each refuses what the real one refuses.
 * Sources: https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow,
 * https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference,
 * https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
 */
import { UpstreamServer } from "../upstream-server.ts";
import { notFound } from "./sources.ts";

const refused = (error: string, status: number) => Response.json({ error, error_description: "AADSTS0" }, { status });

export function authority(
  client: string,
  isProof: (fields: Readonly<Record<string, string>>) => boolean,
): UpstreamServer {
  let given = 0;
  return new UpstreamServer(({ method, path, headers, text }) => {
    if (method !== "POST" || path !== "/tenant-1/oauth2/v2.0/token") return notFound();
    if (headers.get("content-type") !== "application/x-www-form-urlencoded") return refused("invalid_request", 400);
    const { grant_type, client_id, scope, ...proof } = Object.fromEntries(new URLSearchParams(text));
    if (grant_type !== "client_credentials") return refused("unsupported_grant_type", 400);
    if (scope !== "https://cognitiveservices.azure.com/.default") return refused("invalid_scope", 400);
    if (client_id !== client) return refused("unauthorized_client", 400);
    if (!isProof(proof)) return refused("invalid_client", 401);
    given += 1;
    return Response.json({
      token_type: "Bearer",
      expires_in: 3599,
      ext_expires_in: 3599,
      access_token: `entra-${given}`,
    });
  });
}

type IdentityOptions = {
  readonly path: string;
  readonly version: string;
  readonly header: readonly [name: string, value: string];
  readonly client?: string;
  /** Unix milliseconds. */
  readonly now: () => number;
};

/** An endpoint of a managed identity: its numbers are strings. */
export function managedIdentity({
  path: own,
  version,
  header: [name, value],
  client,
  now,
}: IdentityOptions): UpstreamServer {
  let given = 0;
  return new UpstreamServer(({ method, path, headers }) => {
    const { pathname, searchParams } = new URL(path, "http://identity");
    if (method !== "GET" || pathname !== own) return notFound();
    if (headers.get(name) !== value) return refused("invalid_request", 400);
    const asked = Object.fromEntries(searchParams);
    const wanted = {
      ...{ resource: "https://cognitiveservices.azure.com", "api-version": version },
      ...(client !== undefined && { client_id: client }),
    };
    if (!Bun.deepEquals(asked, wanted)) return refused("invalid_resource", 400);
    given += 1;
    const expires_on = String(Math.floor(now() / 1000) + 86_400);
    return Response.json({
      access_token: `identity-${given}`,
      expires_on,
      resource: wanted.resource,
      token_type: "Bearer",
    });
  });
}
