/** Builds a page's script and style sheet from its sources: for the executable beforehand, and for a server that runs from source when a browser asks. */
import { join } from "node:path";

type PageFiles = { readonly script: string; readonly style: string };

/** The pages that browsers run, by the entries of their sources. */
const entries = { console: "../../console/main.tsx", account: "../../account/browser/main.tsx" } as const;

export type BrowserPage = keyof typeof entries;
export const browserPages = Object.keys(entries) as readonly BrowserPage[];

/** Rejects with AggregateError where the sources have faults. */
export async function bundlePage(page: BrowserPage): Promise<PageFiles> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, entries[page])],
    target: "browser",
    format: "esm",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const textOf = async (ending: string) => (await outputs.find(({ path }) => path.endsWith(ending))?.text()) ?? "";
  return { script: await textOf(".js"), style: await textOf(".css") };
}
