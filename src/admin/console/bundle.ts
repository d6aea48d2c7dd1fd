/** Builds the console's script and style sheet from `src/console`: for the executable beforehand, and for a server that runs from source when a browser asks. */
import { join } from "node:path";

export type ConsoleFiles = { readonly script: string; readonly style: string };

const entry = join(import.meta.dir, "../../console/main.tsx");

/** Rejects with AggregateError where the sources have faults. */
export async function bundleConsole(): Promise<ConsoleFiles> {
  const { outputs } = await Bun.build({
    entrypoints: [entry],
    target: "browser",
    format: "esm",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const textOf = async (ending: string) => (await outputs.find(({ path }) => path.endsWith(ending))?.text()) ?? "";
  return { script: await textOf(".js"), style: await textOf(".css") };
}
