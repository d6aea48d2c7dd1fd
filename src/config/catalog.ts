/** The part of the provider registry that the configuration needs. */
import type { TObject } from "@sinclair/typebox";

export type RemoteEntry = {
  readonly kind: "remote";
  readonly name: string;
  /** The public address; "" where each customer has an own one. */
  readonly baseUrl: string;
  readonly environment: {
    readonly keys: readonly string[];
    readonly baseUrl: readonly string[];
    readonly shared?: readonly string[];
    readonly presence?: readonly string[];
    readonly tokens?: readonly string[];
    readonly options?: Readonly<Record<string, string>>;
    readonly credentialsFile?: {
      readonly option: string;
      readonly variable: string;
      readonly members: Readonly<Record<string, string>>;
    };
  };
  readonly keyOptional: boolean;
  /** A way to authenticate without a key, by the name that an account's option `auth` may hold. */
  readonly auth?: { readonly kind: string; readonly isChosen?: true };
  readonly options?: TObject;
  readonly modelRules?: TObject;
};

/** Needs no upstream, and so takes no settings. */
type LocalEntry = { readonly kind: "local"; readonly name: string };

export type ProviderCatalog = readonly (RemoteEntry | LocalEntry)[];

/** True if an account authenticates by signatures or tokens of its own, and by no key. */
export const isKeyless = (
  auth: RemoteEntry["auth"],
  options: Readonly<Record<string, unknown>>,
  apiKey: string | undefined,
): boolean =>
  auth !== undefined &&
  (options["auth"] === undefined ? apiKey === undefined && auth.isChosen !== true : options["auth"] === auth.kind);
