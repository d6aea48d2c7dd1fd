/** Specifies keys: what one may do, and the checks of it. */
import { type KeySurface, keySurfaces } from "../config/surfaces.ts";
import { type Tier, tiers } from "../protocols/tiers.ts";
import { KeyError } from "./key-lookup.ts";

export type KeySpec = {
  readonly name: string;
  readonly tier: Tier;
  /** Requests per minute; enterprise keys must name it. */
  readonly perMinute?: number;
  /** Tokens per minute. Default: no limit. */
  readonly tokensPerMinute?: number;
  /** Default: those of models. */
  readonly surfaces?: readonly KeySurface[];
  /** Globs over model ids. Default: every model. */
  readonly models?: readonly string[];
  /** Default: none. */
  readonly tags?: readonly string[];
  /** Unix milliseconds. Default: never. */
  readonly expiresAt?: number;
};

/** Changes of a key; null takes a number or an expiry away. */
export type KeyChanges = Partial<Pick<KeySpec, "name" | "tier" | "surfaces" | "models" | "tags">> & {
  readonly perMinute?: number | null;
  readonly tokensPerMinute?: number | null;
  readonly expiresAt?: number | null;
};

/** A key that nobody can make as it was asked for: a wrong use. */
export class KeySpecError extends KeyError {
  override readonly name = "KeySpecError";
  /** Which part of the specification is wrong. */
  readonly part: keyof KeySpec;

  constructor(part: keyof KeySpec, message: string) {
    super(message);
    this.part = part;
  }
}

const greatestPerMinute = 1_000_000;

const greatestTokensPerMinute = 1_000_000_000;

const maxTags = 16;

/** A tag stands in headers, labels and addresses as it is. */
export const isTag = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);

/**
 * @param now in Unix milliseconds
 * @param changes the parts to look at, where the others were right before. Default: all
 * @throws KeySpecError
 */
export function checkSpec(spec: KeySpec, now: number, changes: object = spec): void {
  const { name, tier, perMinute, tokensPerMinute, surfaces, models, tags, expiresAt } = spec;
  const faults: [boolean, keyof KeySpec, string][] = [
    [
      !/^[^\p{Cc}\p{Cs}]{1,100}$/u.test(name),
      "name",
      "The name must have 1 to 100 characters, without control characters.",
    ],
    [!tiers.includes(tier), "tier", `The tier must be one of ${tiers.join(", ")}.`],
    [
      tier === "enterprise" && perMinute === undefined,
      "perMinute",
      "An enterprise key needs its number of requests per minute.",
    ],
    [
      perMinute !== undefined && !isCount(perMinute, greatestPerMinute),
      "perMinute",
      `The requests per minute must be a whole number from 1 to ${greatestPerMinute}.`,
    ],
    [
      tokensPerMinute !== undefined && !isCount(tokensPerMinute, greatestTokensPerMinute),
      "tokensPerMinute",
      `The tokens per minute must be a whole number from 1 to ${greatestTokensPerMinute}.`,
    ],
    [
      surfaces !== undefined && (surfaces.length === 0 || surfaces.some((surface) => !keySurfaces.includes(surface))),
      "surfaces",
      `The surfaces must be one or more of ${keySurfaces.join(", ")}.`,
    ],
    [
      models !== undefined && (models.length === 0 || models.includes("")),
      "models",
      "The models must be one or more patterns.",
    ],
    [
      tags !== undefined && (tags.length > maxTags || !tags.every(isTag)),
      "tags",
      `The tags must be at most ${maxTags}, each of 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or digit.`,
    ],
    [
      expiresAt !== undefined && "expiresAt" in changes && !(expiresAt > now),
      "expiresAt",
      "The expiry must lie in the future.",
    ],
  ];
  const fault = faults.find(([wrong]) => wrong);
  if (fault !== undefined) throw new KeySpecError(fault[1], fault[2]);
}

const isCount = (number: number, greatest: number) => Number.isInteger(number) && number >= 1 && number <= greatest;
