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
    readonly presence?: readonly string[];
    readonly tokens?: readonly string[];
    readonly options?: Readonly<Record<string, string>>;
  };
  readonly keyOptional: boolean;
  readonly options?: TObject;
  readonly modelRules?: TObject;
};

/** Needs no upstream, and so takes no settings. */
type LocalEntry = { readonly kind: "local"; readonly name: string };

export type ProviderCatalog = readonly (RemoteEntry | LocalEntry)[];
