/** What the clients of the cluster do: call, join, leave, resume, and ask again anywhere. */
import type { Random } from "../helpers/random.ts";
import { type Cluster, now } from "./cluster.ts";
import { type Attempt, eventsOf, type Kind } from "./history.ts";

export type Work = { readonly id: string; readonly kind: Kind; readonly fragments: number; readonly pauseMs: number };

const chat = "/gateway/v1/chat/completions";
/** Longer than any promise allows: an attempt that takes longer hangs. */
const hangsMs = 20_000;

export class Clients {
  readonly attempts: Attempt[] = [];
  readonly works: Work[] = [];
  /** What took too long. */
  readonly hangs: string[] = [];
  /** When each background response was first asked for. */
  readonly #askedAt = new Map<string, number>();
  readonly #cluster: Cluster;
  readonly #random: Random;

  constructor(cluster: Cluster, random: Random) {
    this.#cluster = cluster;
    this.#random = random;
  }

  /** Some new id, or one of the last ones: as a retry, or to join it. @param nodes default: all */
  async act(nodes: readonly number[] = [...this.#cluster.nodes.keys()]): Promise<void> {
    const random = this.#random;
    const isNew = this.works.length === 0 || random.chance(55);
    const work = isNew ? this.#newWork() : this.works[Math.max(0, this.works.length - 1 - random.below(12))]!;
    if (isNew) this.works.push(work);
    await this.ask(work, random.pick(nodes), random.chance(30), nodes);
    await Bun.sleep(random.below(200));
  }

  #newWork(): Work {
    const random = this.#random;
    const kind = random.pick<Kind>(["plain", "plain", "stream", "stream", "stream", "background"]);
    const fragments = random.pick([1, 3, 8, 20]);
    return { id: `i${this.works.length}`, kind, fragments, pauseMs: random.pick([1, 20, 60, 150]) };
  }

  /** @param leaves in the middle of a stream, and resumes it elsewhere. @returns whether the client has the whole answer now */
  async ask(work: Work, node: number, leaves = false, nodes: readonly number[] = [node]): Promise<boolean> {
    if (work.kind === "background") return this.#background(work, node, nodes);
    if (work.kind === "plain") return (await this.#fetch(work, node, work.id)).isComplete;
    const leavesAfter = leaves ? this.#random.below(work.fragments) + 1 : undefined;
    const first = await this.#stream(work, node, undefined, leavesAfter);
    const last = eventsOf(first.text).at(-1);
    if (first.isComplete || last === undefined) return first.isComplete;
    const elsewhere = this.#random.pick(nodes);
    return (await this.#stream(work, elsewhere, `${last.run}-${last.number}`)).isComplete;
  }

  async #background(work: Work, node: number, nodes: readonly number[]): Promise<boolean> {
    const askedAt = this.#askedAt.get(work.id) ?? now();
    this.#askedAt.set(work.id, askedAt);
    const accepted = await this.#fetch(work, node, `${work.id}-accepted`);
    if (!accepted.isComplete) return false;
    const { id } = JSON.parse(accepted.text) as { id: string };
    for (const end = now() + hangsMs; ; ) {
      const at = this.#random.pick(nodes);
      const got = await this.#request(work, at, work.id, undefined, undefined, `/gateway/v1/responses/${id}`);
      if (got.status !== 200) {
        this.attempts.push({ ...got, askedAt, isComplete: false });
        if (got.status === 404) this.hangs.push(`${work.id}: node ${at} does not know its own response ${id}`);
        return false;
      }
      const { status } = JSON.parse(got.text) as { status: string };
      if (status === "queued" || status === "in_progress") {
        if (now() > end) {
          this.hangs.push(`${work.id}: its response ${id} is still ${status} at node ${at}`);
          return false;
        }
        await Bun.sleep(50);
        continue;
      }
      this.attempts.push({ ...got, askedAt });
      return true;
    }
  }

  async #fetch(work: Work, node: number, name: string): Promise<Attempt> {
    const attempt = await this.#request(work, node, name);
    this.attempts.push(attempt);
    return attempt;
  }

  async #stream(work: Work, node: number, after?: string, leavesAfter?: number): Promise<Attempt> {
    const attempt = await this.#request(work, node, work.id, after, leavesAfter);
    this.attempts.push(attempt);
    return attempt;
  }

  async #request(
    work: Work,
    node: number,
    id: string,
    after?: string,
    leavesAfter?: number,
    path?: string,
  ): Promise<Attempt> {
    const startedAt = now();
    const content = `${work.id} ${work.fragments} ${work.pauseMs}`;
    const isStream = work.kind === "stream";
    const body =
      work.kind === "background"
        ? { model: "up/m", background: true, input: content }
        : { model: "up/m", stream: isStream, messages: [{ role: "user", content }] };
    const url = this.#cluster.urlOf(node);
    const leaving = new AbortController();
    const hanging = setTimeout(
      () => {
        this.hangs.push(`${id} at node ${node}: no end after ${hangsMs} ms`);
        leaving.abort();
      },
      hangsMs + work.fragments * work.pauseMs,
    );
    let text = "";
    let status = 0;
    let isWhole = false;
    let hasLeft = false;
    try {
      const response = await fetch(url + (path ?? (work.kind === "background" ? "/gateway/v1/responses" : chat)), {
        ...(path === undefined && { method: "POST", body: JSON.stringify(body) }),
        headers: {
          authorization: `Bearer ${this.#cluster.key}`,
          "content-type": "application/json",
          "service-request-id": work.id,
          ...(after !== undefined && { "last-event-id": after }),
        },
        signal: leaving.signal,
      });
      status = response.status;
      const decoder = new TextDecoder();
      for await (const part of response.body!) {
        text += decoder.decode(part, { stream: true });
        hasLeft = leavesAfter !== undefined && eventsOf(text).length >= leavesAfter;
        if (hasLeft) leaving.abort();
      }
      isWhole = true;
    } catch {
      // The node was killed, or this client left: what came is all there is.
    } finally {
      clearTimeout(hanging);
    }
    const isComplete = status === 200 && (isStream ? isFinished(text) : isWhole);
    return { id, kind: work.kind, node, startedAt, endedAt: now(), status, isComplete, hasLeft, text, after };
  }
}

const isFinished = (text: string) => text.endsWith("data: [DONE]\n\n") && !/^data: \{"error"/m.test(text);
