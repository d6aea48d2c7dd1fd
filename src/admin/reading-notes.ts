/** Who has read whose words lately, so that a page that is loaded again and again leaves one line of the audit. */

const onceMs = 600_000;
const maxNotes = 1_000;

export class ReadingNotes {
  /** When each was recorded, the earliest first. */
  readonly #at = new Map<string, number>();

  /** Records the reading, unless the same person's of the same words was recorded lately. Rejects as `record` does. */
  async once(now: number, actor: string, subject: string, record: () => Promise<void>): Promise<void> {
    const note = `${actor} ${subject}`;
    const last = this.#at.get(note);
    if (last !== undefined && now - last < onceMs) return;
    await record();
    this.#at.delete(note);
    this.#at.set(note, now);
    for (const oldest of this.#at.keys()) {
      if (this.#at.size <= maxNotes) return;
      this.#at.delete(oldest);
    }
  }
}
