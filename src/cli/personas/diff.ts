/** `troupe personas diff`: what differs between two versions of a persona, or two personas. */
import { createTwoFilesPatch } from "diff";
import { writePersonaYaml } from "../../personas/file/persona-yaml.ts";
import { splitReference } from "../../personas/versions/references.ts";
import { withStore } from "../commands/storage.ts";
import type { Context, ExitCode } from "../context.ts";
import { versionFinder } from "./versions.ts";

/** @param other absent: what is in the folder now */
export function diffPersonas(context: Context, one: string, other: string | undefined): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const { find } = await versionFinder(context, config, store);
    const before = await find(one);
    const after = await find(other ?? splitReference(one)?.id ?? one);
    const nameOf = ({ id, version }: typeof before) => `${id}@${version}`;
    if (before.version === after.version) {
      context.io.stderr.write(`${nameOf(before)} and ${nameOf(after)} say the same.\n`);
      return;
    }
    const texts = [before, after].map(({ content }) => writePersonaYaml(content)) as [string, string];
    const patch = createTwoFilesPatch(nameOf(before), nameOf(after), ...texts, undefined, undefined, {
      context: 3,
      headerOptions: { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
    });
    context.io.stdout.write(context.io.stdout.isTerminal ? coloured(patch) : patch);
  });
}

const colours: readonly (readonly [RegExp, number])[] = [
  [/^(?:---|\+\+\+)/, 1],
  [/^\+/, 32],
  [/^-/, 31],
  [/^@@/, 36],
];

const coloured = (patch: string): string =>
  patch
    .split("\n")
    .map((line) => {
      const colour = colours.find(([form]) => form.test(line))?.[1];
      return colour === undefined ? line : `\u001b[${colour}m${line}\u001b[0m`;
    })
    .join("\n");
