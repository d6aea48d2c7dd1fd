/** The `listen` setting: addresses, surfaces and TLS files of the listeners. */
import { resolve } from "node:path";
import { isIP } from "../lib/http/ip.ts";
import type { PathPart } from "../lib/json/schema-errors.ts";
import type { ListenerConfig, ServedSurface } from "./config.ts";
import type { FaultReporter, ValueOrigin } from "./report.ts";
import type { ConfigFile, ListenerFile } from "./schema.ts";
import { modelSurfaces, surfaceNames } from "./surfaces.ts";
import type { ReadFile } from "./variables.ts";

type Address = ListenerConfig["address"];

/** A value of the command line or the environment for the one listener there is. */
export type Override = { readonly origin: ValueOrigin; readonly value: string };

type ListenerContext = {
  readonly report: FaultReporter;
  readonly reportOverride: (override: Override, message: string) => void;
  readonly host: Override | undefined;
  readonly port: Override | undefined;
  /** The folder that relative paths are from. */
  readonly folder: string;
  readonly readFile: ReadFile;
};

type Entry = { readonly path: readonly PathPart[]; readonly file: ListenerFile };
type Placed = {
  readonly path: readonly PathPart[];
  /** The surfaces that it names. */
  readonly names: readonly ServedSurface[] | undefined;
  readonly listener: Omit<ListenerConfig, "surfaces">;
};

export function listenersFrom(listen: NonNullable<ConfigFile["listen"]>, context: ListenerContext): ListenerConfig[] {
  const placed = entriesOf(listen).flatMap((entry) => placedFrom(entry, context));
  const moved = override(placed, context);
  reportClashes(moved, context.report);
  return moved.map(({ names, listener }) => ({ ...listener, surfaces: names ?? defaultSurfaces(listener) }));
}

/** Surfaces of a listener that names none: keys can be managed from this machine, and from no other. */
const defaultSurfaces = (listener: Pick<ListenerConfig, "address">): readonly ServedSurface[] =>
  isLoopback(listener) ? surfaceNames : modelSurfaces;

/** Names of this machine. Nobody on the web can have one: https://www.rfc-editor.org/rfc/rfc6761#section-6.3 */
const loopbackNames = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|::1)$/;

/** Other machines can't reach such an address; the browsers of this one can. */
export function isLoopback({ address }: Pick<ListenerConfig, "address">): boolean {
  return address.kind === "tcp" && loopbackNames.test(address.host.toLowerCase());
}

function entriesOf(listen: NonNullable<ConfigFile["listen"]>): Entry[] {
  if (typeof listen === "string" || "address" in listen) return entryOf(listen, ["listen"]);
  return listen.flatMap((one, at) => entryOf(one, ["listen", at]));
}

/** A text may hold several addresses, separated by commas: an environment variable has no other way. */
function entryOf(one: string | ListenerFile, path: readonly PathPart[]): Entry[] {
  if (typeof one !== "string") return [{ path, file: one }];
  return one.split(",").map((address) => ({ path, file: { address: address.trim() } }));
}

function placedFrom({ path, file }: Entry, { report, folder, readFile }: ListenerContext): Placed[] {
  const { address: given, surfaces: names, tls } = file;
  const address = parseAddress(given, folder);
  const paths = tls && { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) };
  for (const name of ["cert", "key"] as const) {
    const message = paths && fileError(paths[name], readFile);
    if (message !== undefined) report([...path, "tls", name], message);
  }
  if (typeof address === "string") {
    report(path, `${JSON.stringify(given)} ${address}`);
    return [];
  }
  return [{ path, names, listener: { address, ...(paths && { tls: paths }) } }];
}

function fileError(path: string, readFile: ReadFile): string | undefined {
  try {
    return readFile(path) === undefined ? `names ${path}, which does not exist` : undefined;
  } catch (error) {
    return `names ${path}, which can't be read: ${(error as Error).message}`;
  }
}

const form = "must be <host>:<port>, [<IPv6 address>]:<port> or unix:<path>";
/** Bytes that fit into a socket's address, with its closing zero. Source: https://man7.org/linux/man-pages/man7/unix.7.html */
const maxSocketPath = 107;

/** @returns a text when it is none: what is wrong with it, without its subject */
export function parseAddress(text: string, folder: string): Address | string {
  if (text.startsWith("unix:")) {
    if (text === "unix:") return form;
    const path = resolve(folder, text.slice("unix:".length));
    const isShort = Buffer.byteLength(path) <= maxSocketPath;
    return isShort ? { kind: "unix", path } : `names a socket whose path has more than ${maxSocketPath} bytes`;
  }
  const [, bracketed, plain, digits] = /^(?:\[([^\]]*)\]|([^:]*)):([^:]*)$/.exec(text) ?? [];
  const host = parseHost(bracketed === undefined ? plain : `[${bracketed}]`);
  if (host === undefined || digits === undefined) return form;
  const port = parsePort(digits);
  return port === undefined ? "must have a port from 0 to 65535" : { kind: "tcp", host, port };
}

/** @returns a name or an address, IPv6 without brackets; undefined when it is neither */
function parseHost(text = ""): string | undefined {
  const unwrapped = text.replace(/^\[(.*)\]$/, "$1");
  if (isIP(unwrapped) === 6) return unwrapped;
  if (isIP(text) === 4) return text;
  const isName = /^(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(text) && !/^[\d.]+$/.test(text);
  return isName ? text : undefined;
}

function parsePort(text: string): number | undefined {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined;
}

export function formatAddress(address: Address): string {
  if (address.kind === "unix") return `unix:${address.path}`;
  return `${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}`;
}

function override(placed: readonly Placed[], context: ListenerContext): readonly Placed[] {
  const { host, port, reportOverride } = context;
  const given = [host, port].filter((one) => one !== undefined);
  const only = placed[0];
  if (given.length === 0 || only === undefined) return placed;
  if (placed.length > 1 || only.listener.address.kind !== "tcp") {
    for (const one of given) reportOverride(one, "moves a single listener on a port, but the configuration has others");
    return placed;
  }
  const address = { ...only.listener.address };
  if (host !== undefined) {
    const parsed = parseHost(host.value);
    if (parsed === undefined) reportOverride(host, "must be a host name or an IP address");
    else address.host = parsed;
  }
  if (port !== undefined) {
    const parsed = parsePort(port.value);
    if (parsed === undefined) reportOverride(port, "must be a port from 0 to 65535");
    else address.port = parsed;
  }
  return [{ ...only, listener: { ...only.listener, address } }];
}

function reportClashes(placed: readonly Placed[], report: FaultReporter): void {
  placed.forEach(({ path, listener }, at) => {
    const other = placed.slice(0, at).find((earlier) => clash(earlier.listener.address, listener.address));
    if (other === undefined) return;
    report(path, `${formatAddress(listener.address)} is taken by ${formatAddress(other.listener.address)} above`);
  });
}

function clash(one: Address, other: Address): boolean {
  if (one.kind === "unix" || other.kind === "unix") return formatAddress(one) === formatAddress(other);
  const covers = one.host === other.host || isEverywhere(one) || isEverywhere(other);
  return one.port !== 0 && one.port === other.port && covers;
}

const isEverywhere = ({ host }: { readonly host: string }) => host === "0.0.0.0" || host === "::";
