/** `troupe service`: the systemd unit, printed or placed. */
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import template from "../../deploy/troupe.service" with { type: "text" };
import { CommandError, type Context, type ExitCode } from "./context.ts";
import { formatFields } from "./table.ts";

type Place = {
  /** A folder that stands for the root of the file system. */
  readonly root?: string;
};

const unitName = "troupe.service";
const unitPath = `/etc/systemd/system/${unitName}`;

/** The unit that runs this very program. */
function unitText({ io }: Context): string {
  const program = io.processes.program.map(quoted).join(" ");
  return template.replace("ExecStart=/usr/local/bin/troupe", `ExecStart=${program}`);
}

/** Source: systemd.service(5), COMMAND LINES */
function quoted(word: string): string {
  const escaped = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+:,./$-]+$/.test(escaped) ? escaped : `"${escaped.replaceAll(/["\\]/g, "\\$&")}"`;
}

export function printService(context: Context): ExitCode {
  context.io.stdout.write(unitText(context));
  return 0;
}

export function installService(context: Context, { root = "/" }: Place): ExitCode {
  const path = pathIn(context, root);
  placing(path, () => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, unitText(context));
    chmodSync(path, 0o644);
  });
  const steps = ["systemctl daemon-reload", "systemctl enable --now troupe", "troupe service status"];
  context.io.stdout.write(`${path} is in place. Next:\n${steps.map((step) => `  ${step}\n`).join("")}`);
  return 0;
}

export function uninstallService(context: Context, { root = "/" }: Place): ExitCode {
  const path = pathIn(context, root);
  if (readUnit(path) === undefined) throw new CommandError(`There is no ${path}.`);
  placing(path, () => rmSync(path));
  context.io.stdout.write(
    `${path} is removed; the data in /var/lib/private/troupe stays. Next:\n  systemctl disable --now troupe\n  systemctl daemon-reload\n`,
  );
  return 0;
}

/** @returns 0 when the unit in place runs this program */
export function showServiceStatus(context: Context, { root = "/" }: Place): ExitCode {
  const path = pathIn(context, root);
  const unit = readUnit(path);
  const own = unitText(context);
  const state =
    unit === undefined
      ? "not in place"
      : unit === own
        ? "in place"
        : "in place, but not as this version would write it";
  const asked = root === "/" ? askManager() : {};
  context.io.stdout.write(formatFields({ unit: path, state, ...asked }));
  return unit === own ? 0 : 1;
}

const pathIn = ({ io }: Context, root: string) => join(resolve(io.cwd, root), unitPath);

function readUnit(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function placing(path: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === undefined) throw error;
    throw new CommandError(
      `${path} can't be changed (${code}). Run this as root, or place what 'troupe service print' gives.`,
    );
  }
}

/** What systemd says of the service; nothing where it does not run. */
function askManager(): Record<string, string> {
  const systemctl = Bun.which("systemctl");
  if (systemctl === null) return { systemd: "not here" };
  const properties = ["ActiveState", "SubState", "MainPID", "NRestarts", "StatusText"];
  const { stdout, success } = Bun.spawnSync([systemctl, "show", unitName, `--property=${properties.join(",")}`]);
  if (!success) return { systemd: "does not run here" };
  const values = stdout.toString().trim().split("\n");
  return Object.fromEntries(
    values.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}
