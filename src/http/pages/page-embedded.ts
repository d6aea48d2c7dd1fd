/** The files of pages as the executable holds them, compressed as well as can be: that takes half a second, which is spent when it is built. */

import accountStyleBrotli from "../../../dist/account/account.css.br" with { type: "file" };
import accountStyleGzip from "../../../dist/account/account.css.gz" with { type: "file" };
import accountScriptBrotli from "../../../dist/account/account.js.br" with { type: "file" };
import accountScriptGzip from "../../../dist/account/account.js.gz" with { type: "file" };
import styleBrotli from "../../../dist/console/console.css.br" with { type: "file" };
import styleGzip from "../../../dist/console/console.css.gz" with { type: "file" };
import scriptBrotli from "../../../dist/console/console.js.br" with { type: "file" };
import scriptGzip from "../../../dist/console/console.js.gz" with { type: "file" };
import type { BrowserPage } from "./page-bundle.ts";
import type { CompressedText } from "./pages.ts";

type Paths = readonly [brotli: string, gzip: string];
const paths: Readonly<Record<BrowserPage, { readonly script: Paths; readonly style: Paths }>> = {
  console: { script: [scriptBrotli, scriptGzip], style: [styleBrotli, styleGzip] },
  account: { script: [accountScriptBrotli, accountScriptGzip], style: [accountStyleBrotli, accountStyleGzip] },
};

async function read([brotliPath, gzipPath]: Paths): Promise<CompressedText> {
  const [br, gzip] = await Promise.all([Bun.file(brotliPath).bytes(), Bun.file(gzipPath).bytes()]);
  return { body: new TextDecoder().decode(Bun.gunzipSync(gzip)), encoded: { br, gzip } };
}

export const embeddedPage = async (
  page: BrowserPage,
): Promise<Readonly<Record<"script" | "style", CompressedText>>> => ({
  script: await read(paths[page].script),
  style: await read(paths[page].style),
});
