/** Checks addresses, hosts and origins that the configuration names. */
import { AddressBlocks } from "../lib/http/addresses.ts";

export function blockError(block: string): string | undefined {
  try {
    return new AddressBlocks([block]) && undefined;
  } catch {
    return "is not an address or a CIDR block";
  }
}

export function hostError(host: string): string | undefined {
  const isName = /^(?:[a-z0-9*](?:[a-z0-9*.-]*[a-z0-9*])?|\[[0-9a-f:.]+\])$/i.test(host);
  return isName ? undefined : "is not a name such as troupe.lan; ports and schemes do not belong to it";
}

/** Never repeats what it is about, which holds a password. */
export function databaseError(url: string): string | undefined {
  if (!URL.canParse(url))
    return "is no address such as postgres://user:password@host:5432/database; in a password, write %40 for @ and %2F for /";
  const { protocol, hostname, pathname, searchParams } = new URL(url);
  if (!["postgres:", "postgresql:"].includes(protocol))
    return "must begin with postgres://; without 'store', SQLite in the data folder is used";
  if (pathname.length < 2 || (hostname === "" && !searchParams.has("host")))
    return "must name a host and a database: postgres://host/database";
  if (!isDecodable(url)) return notDecodable;
  const mode = searchParams.get("sslmode");
  return mode === null || sslModes.includes(mode) ? undefined : `has an sslmode that is none of ${sslModes.join(", ")}`;
}

/** Source: https://www.postgresql.org/docs/current/libpq-ssl.html */
const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

const notDecodable = "has a % that is no escape: in user and password, write %25 for %";

function isDecodable(url: string): boolean {
  const { username, password } = new URL(url);
  try {
    return decodeURIComponent(username + password) !== undefined;
  } catch {
    return false;
  }
}

/** Never repeats what it is about, which holds a password. */
export function coordinationError(url: string): string | undefined {
  if (!URL.canParse(url))
    return "is no address such as redis://user:password@host:6379/0; in a password, write %40 for @ and %2F for /";
  const { protocol, hostname, pathname, search } = new URL(url);
  if (!["redis:", "rediss:", "valkey:", "valkeys:"].includes(protocol)) return "must begin with redis:// or rediss://";
  if (hostname === "") return "must name a host: redis://host:6379";
  // Bun's client knows none: what asks for TLS there would go without.
  if (search !== "") return "takes no settings after '?'; TLS is rediss://host:6379";
  if (!isDecodable(url)) return notDecodable;
  return /^\/?\d*$/.test(pathname) ? undefined : "must end in the number of a database: redis://host:6379/0";
}

export function originError(origin: string): string | undefined {
  const isOrigin =
    URL.canParse(origin) && /^https?:$/.test(new URL(origin).protocol) && new URL(origin).origin === origin;
  return origin === "*" || isOrigin ? undefined : "is not an origin such as https://app.example.com";
}

/** True of an address, false of a path. */
export const isAddress = (place: string): boolean => /^[a-z][a-z0-9+.-]+:\/\//i.test(place);

/** Of a place that facts are read from. */
export function factsPlaceError(place: string): string | undefined {
  if (!isAddress(place)) return undefined;
  if (!URL.canParse(place)) return "is no address such as https://example.org/facts.json, nor a path";
  const { protocol, hostname, username, password } = new URL(place);
  if (username !== "" || password !== "") return "may not hold a user or a password: it is shown and logged";
  if (protocol === "https:") return undefined;
  const isHere = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  return protocol === "http:" && isHere ? undefined : "must begin with https://, unless it is on this machine";
}
