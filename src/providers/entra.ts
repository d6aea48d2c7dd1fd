/** The options of accounts that Entra ID may authenticate in place of a key. */
import { Type } from "@sinclair/typebox";

export const entraOptions = {
  bearer: Type.Optional(
    Type.Boolean({ description: "The key is an access token (Entra ID), sent as Authorization: Bearer." }),
  ),
  auth: Type.Optional(
    Type.Union([Type.Literal("api_key"), Type.Literal("entra")], {
      description:
        "`entra`: access tokens of Entra ID in place of a key, by a client's secret, a federated token or a managed identity; they are fetched and renewed by the server.",
    }),
  ),
  tenant_id: Type.Optional(
    Type.String({ minLength: 1, description: "With `auth: entra`. Default: `AZURE_TENANT_ID`." }),
  ),
  client_id: Type.Optional(
    Type.String({ minLength: 1, description: "With `auth: entra`. Default: `AZURE_CLIENT_ID`." }),
  ),
};
