/** Opens an address in the browser of the person at the desktop. */
import type { Io } from "../../lib/process/io.ts";

/** @returns how this system opens an address; undefined where nobody would see it: without a terminal or a desktop, as root, and in CI */
export function openerOf(
  { stdout, env }: Pick<Io, "stdout" | "env">,
  { platform, isRoot }: { readonly platform: string; readonly isRoot: boolean },
): readonly string[] | undefined {
  if (!stdout.isTerminal || isRoot || env["CI"] || env["SSH_CONNECTION"]) return undefined;
  if (platform === "darwin") return ["open"];
  if (platform === "win32") return ["cmd", "/c", "start", ""];
  return env["DISPLAY"] || env["WAYLAND_DISPLAY"] ? ["xdg-open"] : undefined;
}

export function openBrowser(io: Pick<Io, "stdout" | "env">, url: string): void {
  const opener = openerOf(io, { platform: process.platform, isRoot: process.getuid?.() === 0 });
  if (opener === undefined) return;
  try {
    Bun.spawn([...opener, url], { stdin: "ignore", stdout: "ignore", stderr: "ignore" }).unref();
  } catch {
    // The address is on the terminal.
  }
}
