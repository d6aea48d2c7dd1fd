/** The room of what is remembered and counted: the store, calls that were left, limits, keys. */
import { Keys } from "../../auth/keys.ts";
import type { Logger } from "../../lib/process/log.ts";
import { openMachineLimits } from "../../limits/machine/limiter.ts";
import { StoredLimiter } from "../../limits/stored.ts";
import { openStoreFor } from "../../store/open.ts";
import { openRedisWindows } from "../../store/redis/windows.ts";
import { CallRecovery } from "../../usage/ledger/call-recovery.ts";
import { openSharedState } from "../shared-state.ts";
import type { FirstOpening } from "./opening.ts";

/** Until nodes are known. */
const alone = { nodes: 1, rank: 0 };

/** @throws StorageError when the store or the data folder can't be used */
export async function openStored({ config, options, own, opened, services, clock, log }: FirstOpening) {
  const { workerChannel } = options;
  const store = own(await openStoreFor(config, log, true));
  const recovery = own(new CallRecovery(config.data, store.ledger, clock, log));
  await recovery.start();
  const sharedState = workerChannel && own(openSharedState(workerChannel.settings, clock, log));
  // One worker sweeps for all.
  const isSweeper = workerChannel === undefined || workerChannel.settings.index === 1;
  const processes = workerChannel?.settings.workers ?? 1;
  const limits = own(openMachineLimits(config.data, { clock, log, processes, isSweeper }));
  const { coordination } = config;
  const elsewhere = coordination === undefined ? undefined : own(openRedisWindows(coordination, clock));
  const storedLimits =
    store.windows &&
    own(
      new StoredLimiter({
        windows: elsewhere ?? store.windows,
        clock,
        log,
        place: elsewhere?.place ?? store.path,
        group: () => services().comparison?.group ?? alone,
      }),
    );
  const keys = opened.adopt(new Keys(store.keys, clock, config.tiers), (one) => flushUses(one, log));
  return { store, sharedState, isSweeper, limits, elsewhere, storedLimits, keys };
}

export type Stored = Awaited<ReturnType<typeof openStored>>;

async function flushUses(keys: Keys, log: Logger): Promise<void> {
  try {
    await keys.flush();
  } catch (error) {
    log.warn("when keys were last used could not be written", { error });
  }
}
