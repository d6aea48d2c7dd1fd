/** Labels by which a request says who it is for, as the ledger has them: short, and of few kinds. */
import { truncate } from "../../lib/text/truncate.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";

export type Labels = {
  readonly client: string | null;
  readonly user: string | null;
  readonly metadata: string | null;
};

/** The labels of a request that says no more than which client sends it. */
export const clientLabel = (client: string | null): Labels => ({ client, user: null, metadata: null });

export const noLabels: Labels = clientLabel(null);

const maxClient = 40;
const maxText = 64;
/** So many programs have a name of their own, until the day ends; the others are `other`. */
const maxClients = 200;

/** Names programs by their user agents: the first product without its version, `OpenAI/Python` of `OpenAI/Python 2.3.1`. */
export class ClientNames {
  readonly #clock: Clock;
  #day = Number.NaN;
  /** By user agent, so that one that comes again is not read again. */
  readonly #known = new Map<string, Labels>();
  readonly #names = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @returns what is known of a call before it is read */
  labelsOf(userAgent: string | null): Labels {
    if (userAgent === null) return noLabels;
    const day = Math.floor(this.#clock.now() / dayMs);
    if (day !== this.#day) {
      this.#day = day;
      this.#known.clear();
      this.#names.clear();
    }
    const known = this.#known.get(userAgent);
    if (known !== undefined) return known;
    const product = productOf(userAgent);
    if (product === undefined) return noLabels;
    const hasRoom = this.#names.has(product) || this.#names.size < maxClients;
    const labels = clientLabel(hasRoom ? product : "other");
    if (hasRoom) this.#names.add(product);
    if (this.#known.size < 5 * maxClients && userAgent.length <= 512) this.#known.set(userAgent, labels);
    return labels;
  }
}

/** Source: https://www.rfc-editor.org/rfc/rfc9110#name-user-agent */
function productOf(userAgent: string): string | undefined {
  const [product = ""] = userAgent.trimStart().split(/[\s(]/, 1);
  const parts = product.slice(0, 200).split("/");
  const version = parts.findIndex((part, at) => at > 0 && /^v?\d/.test(part));
  const name = (version < 0 ? parts : parts.slice(0, version)).join("/").replace(/[^\w./@+-]/g, "");
  return name === "" ? undefined : truncate(name, maxClient);
}

/** @param known of the client that sends it @param chosen the keys of metadata that the configuration names */
export function labelsOf(
  known: Labels,
  { user, metadata }: { readonly user?: unknown; readonly metadata?: unknown },
  chosen: readonly string[],
): Labels {
  return chosen.length === 0 && user === undefined ? known : givenLabels(known.client, user, metadata, chosen);
}

function givenLabels(client: string | null, user: unknown, metadata: unknown, chosen: readonly string[]): Labels {
  const given = typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>) : {};
  const pairs = chosen.flatMap((key) => {
    const value = Object.hasOwn(given, key) ? given[key] : undefined;
    return typeof value === "string" && value !== "" ? [[key, plain(value)] as const] : [];
  });
  return {
    client,
    user: typeof user === "string" && user !== "" ? plain(user) : null,
    metadata: pairs.length === 0 ? null : JSON.stringify(Object.fromEntries(pairs)),
  };
}

/** Makes of a text one that every database and terminal can show. */
const plain = (text: string) => truncate(text.toWellFormed().replace(/\p{Cc}/gu, "\ufffd"), maxText);
