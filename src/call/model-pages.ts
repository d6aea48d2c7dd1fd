/** Lists of models as they are sent: made once for all who see the same, until what they are made of changes. */

/** A body that was written once, and the tag by which a client asks for a newer one. */
export type TaggedList = { readonly body: Uint8Array; readonly tag: string };

/** What is kept of all views together; the one that was asked for longest ago goes first. */
const maxBytes = 16 * 1024 * 1024;
/** A longer view, as of a query that nobody repeats, is written each time. */
const maxViewLength = 4096;
const utf8 = new TextEncoder();

const tagged = (body: unknown): TaggedList => {
  const bytes = utf8.encode(JSON.stringify(body));
  return { body: bytes, tag: `"${Bun.hash(bytes).toString(36)}"` };
};

/** What lists are made of: they are the same for as long as each of these is. */
export type Edition = readonly unknown[];

export class ModelPages<T> {
  #edition: Edition = [];
  #models: readonly T[] | undefined;
  /** By view, the one that was asked for last at the end. */
  readonly #pages = new Map<string, TaggedList>();
  #bytes = 0;

  /** Of all providers, for whoever may see them all. */
  models(edition: Edition, make: () => readonly T[]): readonly T[] {
    this.#renew(edition);
    this.#models ??= make();
    return this.#models;
  }

  /** @param view what the body depends on beside the edition: whose it is, in which form, which part */
  page(edition: Edition, view: readonly string[], make: () => unknown): TaggedList {
    this.#renew(edition);
    const name = JSON.stringify(view);
    const known = this.#pages.get(name);
    if (known === undefined) return this.#keep(name, tagged(make()));
    this.#pages.delete(name);
    this.#pages.set(name, known);
    return known;
  }

  #keep(name: string, page: TaggedList): TaggedList {
    if (name.length > maxViewLength) return page;
    this.#pages.set(name, page);
    this.#bytes += page.body.length + name.length;
    for (const [oldest, { body }] of this.#pages) {
      if (this.#bytes <= maxBytes) break;
      this.#pages.delete(oldest);
      this.#bytes -= body.length + oldest.length;
    }
    return page;
  }

  #renew(edition: Edition): void {
    if (edition.every((one, at) => one === this.#edition[at])) return;
    this.#edition = edition;
    this.#models = undefined;
    this.#pages.clear();
    this.#bytes = 0;
  }
}
