/** What is replaced as a whole by a reload, and where other facts count. */

import type { Live, Services } from "../call/services.ts";
import { Aliases } from "../config/aliases.ts";
import type { Config } from "../config/config.ts";
import { AddressBlocks } from "../lib/http/addresses.ts";
import type { Logger } from "../lib/process/log.ts";
import { providers } from "../providers/registry.ts";
import { Accounts, type SignerFactory } from "../upstream/accounts.ts";
import { Prices } from "../usage/prices/prices.ts";
import { listInUse } from "../usage/prices/stored-list.ts";

export function liveFrom(
  config: Config,
  log: Logger,
  { pools, credentials }: Pick<Services, "pools" | "credentials">,
): Live {
  const { list, warning } = listInUse(config.data);
  if (warning !== undefined) log.warn("the stored price list does not count", { reason: warning });
  const signerOf: SignerFactory = (auth, account) => credentials.signer(auth, account);
  const accounts = new Accounts(config.providers, providers, signerOf, pools.members);
  pools.keep(accounts);
  return {
    config,
    accounts,
    aliases: new Aliases(config.aliases),
    prices: new Prices(config.prices, list),
    trustedProxies: new AddressBlocks(config.trustedProxies),
  };
}
