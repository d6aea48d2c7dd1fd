/** The console's files as the executable holds them; `build.ts` writes them before it compiles. */

import stylePath from "../../../dist/console/console.css" with { type: "file" };
import scriptPath from "../../../dist/console/console.js" with { type: "file" };
import type { ConsoleFiles } from "./bundle.ts";

export const embeddedConsole = async (): Promise<ConsoleFiles> => ({
  script: await Bun.file(scriptPath).text(),
  style: await Bun.file(stylePath).text(),
});
