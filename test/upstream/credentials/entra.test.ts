import { describe, expect, test } from "bun:test";
import type { KeylessAuth } from "../../../src/providers/provider.ts";
import { authority, managedIdentity } from "../../helpers/credentials/entra.ts";
import { headersOf, TestSources } from "../../helpers/credentials/sources.ts";

const auth: KeylessAuth = { kind: "entra", scope: "https://cognitiveservices.azure.com/.default" };
const identity = { AZURE_TENANT_ID: "tenant-1", AZURE_CLIENT_ID: "client-1" };

async function errorOf(at: TestSources): Promise<string> {
  const error = await headersOf(at.signer(auth)).then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toMatchObject({ status: 503, code: "upstream_unavailable" });
  return error.message;
}

describe("a client's secret", () => {
  const isProof = (fields: object) => Bun.deepEquals(fields, { client_secret: "s~1" });

  test("is exchanged for a token, for all calls at once", async () => {
    using at = new TestSources({ ...identity, AZURE_CLIENT_SECRET: "s~1" });
    using entra = authority("client-1", isProof);
    at.env["AZURE_AUTHORITY_HOST"] = `${entra.url}/`;
    const signer = at.signer(auth);
    expect(await Promise.all([headersOf(signer), headersOf(signer)])).toEqual([
      { authorization: "Bearer entra-1" },
      { authorization: "Bearer entra-1" },
    ]);
    expect(await signer.source()).toBe("client secret (AZURE_CLIENT_SECRET)");
    at.clock.advance(3_590_000);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer entra-2" });
  });

  test("by tenant and client of the account's options", async () => {
    using at = new TestSources({ AZURE_CLIENT_SECRET: "s~1", AZURE_TENANT_ID: "another" });
    using entra = authority("client-2", isProof);
    at.env["AZURE_AUTHORITY_HOST"] = entra.url;
    const signer = at.signer(auth, { tenant_id: "tenant-1", client_id: "client-2" });
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer entra-1" });
  });

  test("that is wrong is an error with Entra's word, without the secret", async () => {
    using at = new TestSources({ ...identity, AZURE_CLIENT_SECRET: "wrong~2" });
    using entra = authority("client-1", isProof);
    at.env["AZURE_AUTHORITY_HOST"] = entra.url;
    const message = await errorOf(at);
    expect(message).toBe(
      "up: no Entra credentials (client secret: Entra (client secret (AZURE_CLIENT_SECRET)) answered 401 (invalid_client)).",
    );
    expect(message + JSON.stringify(at.logged.lines)).not.toContain("wrong~2");
  });

  test("without a tenant says so", async () => {
    using at = new TestSources({ AZURE_CLIENT_SECRET: "s" });
    expect(await errorOf(at)).toBe(
      "up: no Entra credentials (client secret: neither AZURE_TENANT_ID nor options.tenant_id is set).",
    );
  });
});

test("a federated token proves the client, and its file is read each time", async () => {
  using at = new TestSources(identity);
  let trusted = "jwt-1";
  using entra = authority("client-1", (fields) =>
    Bun.deepEquals(fields, {
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: trusted,
    }),
  );
  at.env["AZURE_AUTHORITY_HOST"] = entra.url;
  at.env["AZURE_FEDERATED_TOKEN_FILE"] = at.write("jwt", "jwt-1\n");
  const signer = at.signer(auth);
  expect(await headersOf(signer)).toEqual({ authorization: "Bearer entra-1" });
  trusted = "jwt-2";
  at.write("jwt", "jwt-2");
  at.clock.advance(3_590_000);
  expect(await headersOf(signer)).toEqual({ authorization: "Bearer entra-2" });
  expect(await signer.source()).toBe("workload identity (AZURE_FEDERATED_TOKEN_FILE)");
});

describe("a managed identity", () => {
  test("of App Service", async () => {
    using at = new TestSources();
    const now = () => at.clock.now();
    using server = managedIdentity({
      path: "/msi/token",
      version: "2019-08-01",
      header: ["x-identity-header", "h"],
      now,
    });
    at.env["IDENTITY_ENDPOINT"] = `${server.url}/msi/token`;
    at.env["IDENTITY_HEADER"] = "h";
    const signer = at.signer(auth);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer identity-1" });
    at.clock.advance(86_400_000 - 300_000 - 1000);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer identity-1" });
    expect(server.requests).toHaveLength(1);
    at.clock.advance(1000);
    await headersOf(signer);
    await server.received(2);
  });

  test("of a virtual machine, by its client", async () => {
    using at = new TestSources({ AZURE_CLIENT_ID: "client-1" });
    const path = "/metadata/identity/oauth2/token";
    const now = () => at.clock.now();
    using server = managedIdentity({
      path,
      version: "2018-02-01",
      header: ["metadata", "true"],
      client: "client-1",
      now,
    });
    at.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = server.url;
    const signer = at.signer(auth);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer identity-1" });
    expect(await signer.source()).toBe("managed identity (instance metadata)");
  });

  test("that nobody has is an error that names what was tried", async () => {
    using at = new TestSources();
    using server = managedIdentity({ path: "/no", version: "", header: ["a", "b"], now: () => 0 });
    at.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = server.url;
    expect(await errorOf(at)).toBe(
      "up: no Entra credentials (client secret: AZURE_CLIENT_SECRET is not set; workload identity: AZURE_FEDERATED_TOKEN_FILE is not set; " +
        "managed identity: managed identity (instance metadata) answered 404).",
    );
  });
});
