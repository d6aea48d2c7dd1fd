/** `troupe personas rollback`: puts a version back into the folder, or a label on it. */
import { moveLabel, rollBackPersona as putBack } from "../../operate/personas/rollback.ts";
import { operatorOf } from "../commands/operator.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { versionFinder } from "./versions.ts";

export function rollBackPersona(
  context: Context,
  id: string,
  version: string,
  { label, json }: { readonly label?: string; readonly json?: boolean },
): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const { find, loaded } = await versionFinder(context, config, store);
    const { folder } = loaded;
    if (folder === undefined)
      throw new CommandError(`${id} is in the executable; only a persona that has a file is rolled back.`);
    const found = await find(`${id}@${version}`);
    const operator = operatorOf(context, store, config);
    const served = loaded.personas.find((one) => one.id === id);
    const name = label === undefined ? id : `${id}@${label}`;
    const { before, after, path, how } =
      label === undefined
        ? await putBack(operator, { folder, served }, found)
        : await moveLabel(operator, folder, label, found);
    if (json) printJson(context.io, { name, before: before ?? null, after, file: path ?? null });
    else if (path === undefined) context.io.stdout.write(`${name} is ${after} already; nothing was written.\n`);
    else context.io.stdout.write(`${name}: ${before ?? "nothing"} → ${after}. Written: ${path}${how ?? ""}\n`);
  });
}
