/** Parses what commands are given on the command line. */

import { InvalidArgumentError } from "commander";
import { maxGraceMs } from "../auth/grace.ts";
import { keySurfaces } from "../config/surfaces.ts";
import type { JsonObject } from "../lib/json/json.ts";
import { systemClock } from "../lib/time/clock.ts";
import { parseDuration } from "../lib/time/duration.ts";
import { capabilitiesIn, capabilityNames } from "../protocols/models.ts";
import { parseExpiry } from "./print/expiry.ts";

export function filled(text: string): string {
  if (text === "") throw new InvalidArgumentError("It must not be empty.");
  return text;
}

export function parseCount(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

/** A number of times, or of things at once. */
export function parsePositive(text: string): number {
  const number = parseCount(text);
  if (number === 0) throw new InvalidArgumentError("It must be at least 1.");
  return number;
}

/** A number from 1 to `most`. */
export const upTo =
  (most: number) =>
  (text: string): number => {
    const number = parsePositive(text);
    if (number > most) throw new InvalidArgumentError(`It must be at most ${most}.`);
    return number;
  };

/** A share of a whole. */
export function parseShare(text: string): number {
  const share = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(share <= 1)) throw new InvalidArgumentError("It must be a share from 0 to 1, such as 0.8.");
  return share;
}

/** How far two sums may lie apart: `0.5%`, or a share. */
export function parseTolerance(text: string): number {
  const share = /^\d*\.?\d+%?$/.test(text) ? Number.parseFloat(text) / (text.endsWith("%") ? 100 : 1) : Number.NaN;
  if (!(share <= 1)) throw new InvalidArgumentError("It must be a share such as 0.5% or 0.005, at most 100%.");
  return share;
}

export function graceOf(text: string): number {
  const duration = parseDuration(text);
  if (duration === undefined || duration > maxGraceMs)
    throw new InvalidArgumentError("It must be a duration such as 1h, at most 30d.");
  return duration;
}

export function parseHash(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text)) throw new InvalidArgumentError("It must be 64 hex digits.");
  return text;
}

/** Words of `--has`, as the API's query has them. */
export function parseCapabilities(text: string): string {
  if (capabilitiesIn(text) === undefined)
    throw new InvalidArgumentError(`It must be words of ${capabilityNames.join(", ")}, with commas between.`);
  return text;
}

export function parseDay(text: string): string {
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text) && new Date(`${text}T00:00:00Z`).toJSON()?.startsWith(text) === true;
  if (!isDay) throw new InvalidArgumentError("It must be a day as YYYY-MM-DD.");
  return text;
}

export function parseTime(text: string): number {
  const time = parseExpiry(text, systemClock.now());
  if (time === undefined) throw new InvalidArgumentError("It must be a date, a time, or a duration such as 90d.");
  return time;
}

export const orNone =
  <T>(parse: (text: string) => T) =>
  (text: string): T | "none" =>
    text === "none" ? text : parse(text);

export type OrNone = number | "none";

/** Changes that are given, null for none: commander takes null for an option without a value. */
export function changesFrom(given: Readonly<Record<string, OrNone | undefined>>): Record<string, number | null> {
  const changes = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value === "none" ? null : value] as const],
  );
  return Object.fromEntries(changes);
}

/** An empty text is an empty list. */
export const parseNames = (text: string) => (text === "" ? [] : parseList(text));

export function parseDollars(text: string): number {
  if (!/^\d{1,9}(\.\d{1,6})?$/.test(text)) throw new InvalidArgumentError("It must be a sum such as 25 or 0.5.");
  return Number(text);
}

export function parseList(text: string): string[] {
  return text.split(",").map((item) => item.trim());
}

/** @returns `used`, or models */
export function parseModels(text: string): "used" | string[] {
  if (text === "used") return text;
  const names = parseList(text);
  if (names.every((name) => /^[^/]+\/./.test(name))) return names;
  throw new InvalidArgumentError("It must be 'used', or models as <provider>/<model>, parted by commas.");
}

export function parseSurfaces(text: string): string[] {
  const names = parseList(text);
  const known: readonly string[] = keySurfaces;
  if (!names.every((name) => known.includes(name))) throw new InvalidArgumentError(`Known: ${keySurfaces.join(", ")}.`);
  return names;
}

export const collected = (value: string, before: readonly string[] = []): string[] => [...before, value];

const parted = (text: string): readonly [name: string, value: string] => {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be <name>=<value>.");
  return [text.slice(0, at), text.slice(at + 1)];
};

/** `language=French`: a text. For options that are given several times, or with several values. */
export const collectedTexts = (text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> => {
  const [name, value] = parted(text);
  return { ...before, [name]: value };
};

/** `temperature=0.2`: JSON, or a text where it is none. */
export const collectedFields = (text: string, before: JsonObject = {}): JsonObject => {
  const [name, value] = parted(text);
  return { ...before, [name]: jsonOrText(value) };
};

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
