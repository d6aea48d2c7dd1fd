/** `troupe personas export`: a persona in the form of another program. */
import { readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { PngError } from "../../lib/files/png.ts";
import { printable } from "../../lib/text/printable.ts";
import { exporters } from "../../personas/exchange/exporters/all.ts";
import type { Exported } from "../../personas/exchange/exporters/exporter.ts";
import type { Omission } from "../../personas/exchange/importers/draft.ts";
import { ImportError, maxTextBytes, parseJsonText } from "../../personas/exchange/importers/source.ts";
import type { PersonaContent } from "../../personas/file/schema.ts";
import { contentOf } from "../../personas/persona.ts";
import { CommandError, type Context, type ExitCode, keyless, UsageError, withConfig } from "../context.ts";
import { loadPersonas, unknownPersona } from "../personas.ts";
import { placeFiles } from "./place-files.ts";

type Options = { readonly format: string; readonly out?: string; readonly force?: boolean };

const maxAvatarBytes = 32 * 1024 * 1024;

export function exportPersona(context: Context, id: string, options: Options): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { io } = context;
      const { personas, paths, from } = await loadPersonas(context, config.personas);
      const persona = personas.find((one) => one.id === id);
      if (persona === undefined) throw unknownPersona(id, { personas, from });
      const exporter = exporters.find((one) => one.format === options.format)!;
      const content = withCard(JSON.parse(contentOf(persona)) as PersonaContent, paths.get(id));
      const avatar = readAvatar(content.avatar, paths.get(id));
      const exported = written(() => exporter.write({ id, content, ...(avatar !== undefined && { avatar }) }));
      if (options.out === undefined && typeof exported.content !== "string") {
        throw new UsageError(`--out names the file: ${options.format} is no text.`);
      }
      if (options.out === undefined) io.stdout.write(exported.content as string);
      else {
        placeFiles([{ path: resolve(io.cwd, options.out), content: exported.content }], options.force === true);
        io.stdout.write(`${id}: ${options.out}\n`);
      }
      io.stderr.write(omissionsText(exported.omitted));
      return 0;
    },
    keyless,
  );
}

/** A card under `card` is an author's to edit, and may be one no more. @throws CommandError */
function written(write: () => Exported): Exported {
  try {
    return write();
  } catch (error) {
    if (error instanceof ImportError) throw new CommandError(printable(`card.${error.place}: ${error.message}`));
    if (error instanceof PngError) throw new CommandError(`The avatar can't be read: ${error.message}`);
    throw error;
  }
}

/** A card that stands in a file beside the persona's. @throws CommandError */
function withCard(content: PersonaContent, path: string | undefined): PersonaContent {
  const { card, ...rest } = content;
  if (typeof card !== "string" || path === undefined) return content;
  const file = join(dirname(path), card);
  try {
    if (statSync(file).size > maxTextBytes) throw new Error(`it is larger than ${maxTextBytes / 1024 / 1024} MiB`);
    return { ...rest, card: parseJsonText(readFileSync(file, "utf8")) as object };
  } catch (error) {
    throw new CommandError(`The card ${file} can't be read: ${(error as Error).message}`);
  }
}

/** What is left out, a line each; "" where nothing is. */
export function omissionsText(omitted: readonly Omission[]): string {
  if (omitted.length === 0) return "";
  const lines = omitted.map(({ place, message }) => `  ${place}: ${message}\n`);
  return printable(`Not carried over, or not as it was:\n${lines.join("")}`);
}

/** @param path of the persona's file: those in the executable have none, and no avatars @throws CommandError */
function readAvatar(avatar: string | undefined, path: string | undefined): Uint8Array | undefined {
  if (avatar === undefined || avatar.startsWith("https://") || path === undefined) return undefined;
  const file = join(dirname(path), avatar);
  try {
    if (statSync(file).size > maxAvatarBytes)
      throw new CommandError(`${file} is larger than ${maxAvatarBytes / 1024 / 1024} MiB.`);
    return readFileSync(file);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`The avatar ${file} can't be read: ${(error as Error).message}`);
  }
}
