/**
 * What clouds take of Anthropic's API: values of `anthropic-beta`, the members of bodies that belong to them, and names of versions. What is
 * not known to be taken is not sent there, as it is refused.
 */
import { ownMember } from "../lib/json/own-member.ts";
import { asNames, factsInForce, following } from "./facts.ts";

export type Cloud = {
  /** @returns the name by which a beta is known there; undefined where it is not taken */
  readonly betaAs: (asked: string) => string | undefined;
  /** Members that it refuses: `name`, `name.name`, `tools[].name`, `**.name` for each block that is cached. */
  readonly lackedMembers: readonly string[];
  /** @returns the name that a version has there */
  readonly versionAs: (asked: string) => string;
};

/** By the facts that count, also those to come. To be called where modules are loaded. */
export function cloudOf(provider: string): Cloud {
  const rowsIn = () => ownMember(factsInForce().providers, provider);
  const betas = following(() =>
    (rowsIn()?.betas ?? []).flatMap(({ beta, as }) => asNames(beta).map((asked) => [asked, as ?? asked] as const)),
  );
  const versions = following(() => rowsIn()?.versions ?? []);
  const betaAs = (asked: string) => betas.find(([name]) => name === asked)?.[1];
  return {
    betaAs,
    lackedMembers: following(() =>
      (factsInForce().beta_members ?? []).flatMap((row) =>
        row.betas.some((beta) => betaAs(beta) !== undefined) ? [] : row.members,
      ),
    ),
    versionAs: (asked) => versions.find(({ version }) => version === asked)?.as ?? asked,
  };
}
