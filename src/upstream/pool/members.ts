/** The keys and endpoints that there are, with what is known of them. */
import { Endpoint, Member } from "./member.ts";

/** Characters of a fingerprint: enough to tell an account's keys apart, and nothing to guess a key by. */
const shown = 8;

const digest = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");

/** @returns the short hash by which a key is shown; "" where there is none */
const fingerprint = (key: string | undefined): string => (key ? digest(key).slice(0, shown) : "");

/** Keeps members over reloads: a key that was changed is another one. */
export class Members {
  readonly #members = new Map<string, Member>();
  readonly #endpoints = new Map<string, Endpoint>();

  /** @returns the member, the same one for the same account, key and address */
  of(account: string, key: string | undefined, baseUrl: string): Member {
    const id = digest(JSON.stringify([account, key ?? "", baseUrl])).slice(0, 32);
    const known = this.#members.get(id);
    if (known !== undefined) return known;
    const address = JSON.stringify([account, baseUrl]);
    const endpoint = this.#endpoints.get(address) ?? new Endpoint(baseUrl);
    this.#endpoints.set(address, endpoint);
    const member = new Member(id, fingerprint(key), endpoint);
    this.#members.set(id, member);
    return member;
  }

  /** Forgets all others. */
  keep(kept: ReadonlySet<Member>): void {
    for (const [id, member] of this.#members) if (!kept.has(member)) this.#members.delete(id);
    const endpoints = new Set([...kept].map(({ endpoint }) => endpoint));
    for (const [address, endpoint] of this.#endpoints) if (!endpoints.has(endpoint)) this.#endpoints.delete(address);
  }
}
