/**
 * Records that a call with a service-request-id did what must not be done twice, such as calling a tool. Its answer is replayed as that of
 * any call; where there is none, as it failed or its process was killed, a retry is refused.
 */
import type { Clock } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import type { IdempotencyRecord, NewCall, RunRepository } from "../store/contract/store.ts";
import { needsStorage } from "../store/require-storage.ts";

type CallName = Pick<NewCall, "scope" | "requestId">;

/** Records of their own, beside those of the calls, which are released when a call fails. */
const scopeOf = ({ scope }: CallName) => `${scope} effects`;

export class Effects {
  readonly #rows: RunRepository;
  readonly #clock: Clock;
  readonly #call: CallName;
  readonly #retentionMs: () => number;

  constructor(rows: RunRepository, clock: Clock, call: CallName, retentionMs: () => number) {
    this.#rows = rows;
    this.#clock = clock;
    this.#call = call;
    this.#retentionMs = retentionMs;
  }

  /** @throws ApiError tools_called where an earlier call had effects; storage_unavailable */
  check(): Promise<void> {
    return needsStorage(async () => void (await this.#earlier()));
  }

  /** To be awaited before the first effect. @throws ApiError tools_called where another call had one first; storage_unavailable */
  record(): Promise<void> {
    return needsStorage(async () => {
      const old = await this.#earlier();
      const { requestId } = this.#call;
      const now = this.#clock.now();
      const run = this.#clock.newId().slice(-8);
      const lease = await this.#rows.claim(
        { scope: scopeOf(this.#call), requestId, fingerprint: "", run, createdAt: now },
        old,
      );
      if (lease === undefined) throw ApiError.toolsCalled();
      const rest = { events: null, bodyFrom: null, body: new Uint8Array(), bytes: 0 };
      const expiresAt = now + this.#retentionMs();
      await this.#rows.finish(lease, { status: 409, headers: "{}", expiresAt, ...rest });
    });
  }

  /** @returns a record that says nothing any more. @throws ApiError tools_called for one that does */
  async #earlier(): Promise<IdempotencyRecord | undefined> {
    const found = await this.#rows.find(scopeOf(this.#call), this.#call.requestId);
    if (found?.state === "finished" && found.expiresAt! > this.#clock.now()) throw ApiError.toolsCalled();
    return found;
  }
}
