/**
 * Addresses behind the `#`: links hold below any prefix, can be opened in tabs and shared, and what is filtered by stays out of proxies' logs.
 */
import { signal } from "@preact/signals";

export type Route = {
  /** The page's name; empty: the first. */
  readonly page: string;
  /** What follows the page's name, such as an id. */
  readonly rest: readonly string[];
  readonly query: URLSearchParams;
};

export type Query = Readonly<Record<string, string | undefined>>;

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/").map(decoded);
  return { page, rest, query: new URLSearchParams(query) };
}

/** Addresses that people cut may end within an escape. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

/** @param rest segments behind the page's name @param query members that are undefined are left out; an empty one asks for what has none */
export function href(page: string, rest: readonly string[] = [], query: Query = {}): string {
  const path = [page, ...rest].map(encodeURIComponent).join("/");
  const kept = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `#/${path}${kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`}`;
}

/** Changes parameters of the address of the page that is shown. @param changes empty: a field that was emptied, which goes @param replace without an entry in the browser's history */
export function setQuery(changes: Query, { replace = false } = {}): void {
  const { page, rest, query } = route.value;
  const changed = Object.entries(changes).map(([name, value]) => [name, value || undefined]);
  const address = href(page, rest, { ...Object.fromEntries(query), ...Object.fromEntries(changed) });
  if (replace) {
    history.replaceState(null, "", address);
    route.value = parse(address);
  } else go(address);
}

export function go(address: string): void {
  location.hash = address;
}
