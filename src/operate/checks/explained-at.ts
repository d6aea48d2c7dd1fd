/** What the facts say of a model as its account calls it: by the rows of the provider, or of the maker whose models are served there. */
import { type Explained, explained } from "../../facts/explain.ts";
import { providers } from "../../providers/registry.ts";
import type { BoundAccount } from "../../upstream/accounts.ts";

const nobodys = { name: "", baseUrl: "", models: [], options: {}, modelRules: [] };

/** @param bound the account; a name: the provider of that name, as it would be by default */
export function explainedAt(bound: Pick<BoundAccount, "provider" | "account"> | string, model: string): Explained[] {
  const { provider, account } =
    typeof bound === "string"
      ? { provider: providers.find(({ name }) => name === bound), account: { ...nobodys, name: bound } }
      : bound;
  const places = provider?.kind === "remote" ? provider.rowsFor?.({ model, account }) : undefined;
  return explained({ provider: provider?.name ?? account.name, model, places, overrides: account.modelRules });
}
