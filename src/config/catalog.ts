/** What the configuration needs to know of the providers that are compiled in; the registry's list fits it. */
import type { TObject } from "@sinclair/typebox";

export type RemoteEntry = {
  readonly kind: "remote";
  readonly name: string;
  /** The public address; "" where each customer has an own one. */
  readonly baseUrl: string;
  readonly environment: {
    readonly apiKey: readonly string[];
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
export type LocalEntry = { readonly kind: "local"; readonly name: string };

export type ProviderCatalog = readonly (RemoteEntry | LocalEntry)[];
