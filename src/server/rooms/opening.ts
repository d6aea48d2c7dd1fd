/** What each room of the services is opened with. */
import type { BuildInfo } from "../../build-info.ts";
import type { Services } from "../../call/services.ts";
import type { Config } from "../../config/config.ts";
import type { LoadResult, OriginsOf } from "../../config/load.ts";
import type { Environment } from "../../config/variables.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { Clock } from "../../lib/time/clock.ts";
import type { Metrics } from "../../observability/metrics.ts";
import type { Persona } from "../../personas/persona.ts";
import type { TextCounter } from "../../usage/tokens/tokenizer.ts";
import type { WorkerChannel } from "../worker.ts";

export type ServiceOptions = {
  readonly build: BuildInfo;
  readonly clock: Clock;
  readonly log: Logger;
  /** True if calls go through a forward proxy, which only `fetch` can. */
  readonly behindForwardProxy?: boolean;
  /** The environment, for credentials of providers without a key. Default: empty. */
  readonly env?: Environment;
  /** Present in a worker. */
  readonly workerChannel?: WorkerChannel;
  /** Public keys by which facts are proved: `factsKeys` of the build. Default: none. */
  readonly factsKeys?: readonly string[];
  /** Where the values of a configuration came from. Default: nobody knows. */
  readonly originsOf?: OriginsOf;
  /** Reads the configuration as its files are now. */
  readonly readConfiguration?: () => LoadResult;
  /** Changes each persona before it is in service. */
  readonly changePersona?: (persona: Persona) => Persona;
  /** Lets images be fetched from private addresses: for tests. */
  readonly allowPrivateMedia?: boolean;
  /** Counts the tokens of calls whose upstream does not. Default: the tokenizer, in a thread of its own. */
  readonly tokenizer?: TextCounter;
};

/** Before there are metrics. */
export type FirstOpening = Pick<ServiceOptions, "build" | "clock" | "log"> & {
  readonly config: Config;
  readonly options: ServiceOptions;
  /** Has a part closed with the others, in reverse. */
  readonly own: <T extends { close(): void | Promise<void> }>(part: T) => T;
  /** Parts that are closed by another method. */
  readonly opened: AsyncDisposableStack;
  /** Asked for once they are there. */
  readonly services: () => Services;
  /** The configuration in force. */
  readonly current: () => Config;
};

export type Opening = FirstOpening & { readonly metrics: Metrics };
