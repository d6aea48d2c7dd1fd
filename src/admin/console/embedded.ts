/** The console's files as the executable holds them, compressed as well as can be: that takes half a second, which is spent when it is built. */

import styleBrotli from "../../../dist/console/console.css.br" with { type: "file" };
import styleGzip from "../../../dist/console/console.css.gz" with { type: "file" };
import scriptBrotli from "../../../dist/console/console.js.br" with { type: "file" };
import scriptGzip from "../../../dist/console/console.js.gz" with { type: "file" };
import type { CompressedText } from "../../http/pages.ts";

async function read(brotliPath: string, gzipPath: string): Promise<CompressedText> {
  const [br, gzip] = await Promise.all([Bun.file(brotliPath).bytes(), Bun.file(gzipPath).bytes()]);
  return { body: new TextDecoder().decode(Bun.gunzipSync(gzip)), encoded: { br, gzip } };
}

export const embeddedConsole = async (): Promise<Readonly<Record<"script" | "style", CompressedText>>> => ({
  script: await read(scriptBrotli, scriptGzip),
  style: await read(styleBrotli, styleGzip),
});
