/** What all tests of a file share, from its first line to its last test. */
import { afterAll } from "bun:test";
import { Troupe, type TroupeOptions } from "./troupe.ts";
import { type UpstreamHandler, UpstreamServer } from "./upstream-server.ts";

/** Ends this after the file's tests. Not within `describe`, whose callback waits for nothing. @returns it */
export function untilEnd<T extends Disposable | AsyncDisposable>(one: T): T {
  afterAll(async () => {
    await (Symbol.asyncDispose in one ? one[Symbol.asyncDispose]() : one[Symbol.dispose]());
  });
  return one;
}

/**
 * A Troupe before an upstream of its own.
 * @param answer what the upstream says
 * @param options of the Troupe, by the upstream's address
 */
export async function served(
  answer: UpstreamHandler,
  options: (url: string) => TroupeOptions,
): Promise<{ readonly troupe: Troupe; readonly upstream: UpstreamServer }> {
  const upstream = new UpstreamServer(answer);
  const troupe = untilEnd(await Troupe.start(options(upstream.url)));
  return { troupe, upstream: untilEnd(upstream) };
}
