/** The sources of credentials of this process: the signers of accounts that authenticate without a key. */
import type { Logger } from "../../lib/process/log.ts";
import { OnceAMinute } from "../../lib/time/once-a-minute.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Account, KeylessAuth } from "../../providers/provider.ts";
import { awsKeys, awsRegion } from "./aws/chain.ts";
import { SigV4Signer } from "./aws/sigv4.ts";
import { BearerSigner } from "./bearer.ts";
import { CachedSecret, type Dated } from "./cached-secret.ts";
import { entraToken } from "./entra/entra.ts";
import { googleToken } from "./google/google.ts";
import type { Signer } from "./signer.ts";
import type { SecretTools } from "./tools.ts";

/** Accounts of the same settings share their secrets, which outlive a reload of the configuration. */
export class CredentialSources {
  readonly #tools: SecretTools;
  readonly #log: Pick<Logger, "warn">;
  readonly #signers = new Map<string, Signer>();

  /** Ends what the tools hold open. */
  readonly close: () => void;

  constructor(tools: SecretTools, log: Pick<Logger, "warn">, close: () => void = () => {}) {
    this.#tools = tools;
    this.#log = log;
    this.close = close;
  }

  /** Reads and asks nothing: that is left to the first call. */
  signer(auth: KeylessAuth, account: Account): Signer {
    const id = JSON.stringify([auth, account.name, account.options]);
    const known = this.#signers.get(id) ?? this.#made(auth, account);
    this.#signers.set(id, known);
    return known;
  }

  #made(auth: KeylessAuth, { name, options, baseUrl }: Account): Signer {
    const tools = this.#tools;
    const option = (key: string) => (typeof options[key] === "string" ? options[key] : undefined);
    if (auth.kind === "aws-sigv4") {
      const profile = option("profile");
      const region = option("region") ?? regionOfHost(baseUrl) ?? awsRegion(tools, profile);
      const keys = this.#cached(name, () => awsKeys(tools, profile, region));
      return new SigV4Signer(keys, { clock: tools.clock, service: serviceOfHost(baseUrl) ?? auth.service, region });
    }
    const { scope } = auth;
    return new BearerSigner(
      auth.kind === "google"
        ? this.#cached(name, () => googleToken(tools, scope, option("credentials_file")))
        : this.#cached(name, () =>
            entraToken(tools, { scope, tenant: option("tenant_id"), client: option("client_id") }),
          ),
    );
  }

  #cached<T>(name: string, fetch: () => Promise<Dated<T>>): CachedSecret<T> {
    const warnings = new OnceAMinute(this.#tools.clock);
    const warn = (error: Error) => {
      if (warnings.takes())
        this.#log.warn("credentials could not be fetched", { provider: name, error: error.message });
    };
    return new CachedSecret({
      clock: this.#tools.clock,
      fetch: async () => {
        try {
          const found = await fetch();
          if (found.endsAt !== undefined && found.endsAt <= this.#tools.clock.now())
            throw new Error(`${found.source} gave credentials that have ended`);
          return found;
        } catch (error) {
          warn(error as Error);
          throw ApiError.unavailable("upstream_unavailable", `${name}: ${(error as Error).message}.`, { cause: error });
        }
      },
    });
  }
}

/** The region that a public address or a VPC endpoint names: `bedrock-runtime.eu-west-1.amazonaws.com`, `….eu-west-1.vpce.amazonaws.com`. */
const regionOfHost = (url: string): string | undefined =>
  /\.([a-z]{2}(?:-[a-z]+)+-\d+)\.(?:(?:vpce\.)?amazonaws\.com|api\.aws)/.exec(url)?.[1];

/**
 * Hosts of the newer domain are named as their service stands in signatures: `bedrock-mantle.eu-west-1.api.aws`.
 * Source: https://github.com/anthropics/anthropic-sdk-typescript/blob/main/packages/bedrock-sdk/src/mantle-client.ts
 */
const serviceOfHost = (url: string): string | undefined =>
  /^https:\/\/([a-z-]+)\.[a-z0-9-]+\.api\.aws(?:\/|$)/.exec(url)?.[1];
