/** `troupe service`: the systemd unit, printed or placed. */

import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import template from "../../../deploy/troupe.service" with { type: "text" };
import { readIfThere } from "../../lib/files/file-watch.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields } from "../print/table.ts";

type Options = {
  readonly json?: boolean;
  /** A folder that stands for the root of the file system. */
  readonly root?: string;
};

const unitName = "troupe.service";
const unitPath = `/etc/systemd/system/${unitName}`;
/** Where a package of the operating system places it. */
const packagedPath = `/usr/lib/systemd/system/${unitName}`;

/** The unit that runs this very program, and names the pages installed beside it. */
function unitText({ io }: Context): string {
  const program = io.processes.program.map(quoted).join(" ");
  const [, prefix] = /^(\/[\w@+:,./-]+)\/bin\/troupe$/.exec(program) ?? [];
  return prefix === undefined
    ? template.replace("ExecStart=/usr/local/bin/troupe", `ExecStart=${program}`)
    : template.replaceAll("/usr/local/", `${prefix}/`);
}

/** Source: systemd.service(5), COMMAND LINES */
function quoted(word: string): string {
  const escaped = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+:,./$-]+$/.test(escaped) ? escaped : `"${escaped.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** Folders that the unit hides from the service, by ProtectHome and PrivateTmp. Source: systemd.exec(5) */
const hiddenFolders = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/** @returns why the service could not run this program; undefined: it could */
function unrunnable({ io }: Context): string | undefined {
  for (const path of io.processes.program.filter((word) => word.startsWith("/"))) {
    const hidden = hiddenFolders.find((folder) => path.startsWith(`${folder}/`));
    if (hidden !== undefined) return `${path} is below ${hidden}, which the unit hides from the service`;
    const closed = ancestorsOf(path).find((one) => !isOpenToOthers(one));
    if (closed !== undefined) return `${path} can't be run by the service's own user: ${closed} is closed to others`;
  }
  return undefined;
}

const ancestorsOf = (path: string): string[] => (path === "/" ? [path] : [...ancestorsOf(dirname(path)), path]);

function isOpenToOthers(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined || (found.mode & 0o001) !== 0 || (!found.isDirectory() && (found.mode & 0o004) !== 0);
}

const elsewhere =
  "Install it for all users and let that one place its unit: 'sh install.sh --prefix /usr/local', then '/usr/local/bin/troupe service install'.";

export function printService(context: Context): ExitCode {
  context.io.stdout.write(unitText(context));
  const reason = unrunnable(context);
  if (reason !== undefined) context.io.stderr.write(`warning: ${reason}. ${elsewhere}\n`);
  return 0;
}

/** @throws CommandError, and places nothing, where the service could not run this program */
export function installService(context: Context, { root = "/", json }: Options): ExitCode {
  const path = pathIn(context, root);
  const reason = unrunnable(context);
  if (reason !== undefined) throw new CommandError(`${reason}. ${elsewhere}`);
  placing(path, () => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, unitText(context));
    chmodSync(path, 0o644);
  });
  const steps = ["systemctl daemon-reload", "systemctl enable --now troupe", "troupe service status"];
  showNext(context, path, `${path} is in place.`, steps, json);
  return 0;
}

export function uninstallService(context: Context, { root = "/", json }: Options): ExitCode {
  const path = pathIn(context, root);
  if (readIfThere(path) === undefined) throw new CommandError(`There is no ${path}.`);
  placing(path, () => rmSync(path));
  const steps = ["systemctl disable --now troupe", "systemctl daemon-reload"];
  showNext(context, path, `${path} is removed; the data in /var/lib/private/troupe stays.`, steps, json);
  return 0;
}

/** @param done in words @param next the commands to be run now */
function showNext({ io }: Context, unit: string, done: string, next: readonly string[], json = false): void {
  if (json) printJson(io, { unit, next });
  else io.stdout.write(`${done} Next:\n${next.map((step) => `  ${step}\n`).join("")}`);
}

/** @returns 0 when the unit in place runs this program */
export function showServiceStatus(context: Context, { root = "/", json }: Options): ExitCode {
  const placed = pathIn(context, root);
  const packaged = pathIn(context, root, packagedPath);
  const path = readIfThere(placed) === undefined && readIfThere(packaged) !== undefined ? packaged : placed;
  const unit = readIfThere(path);
  const own = unitText(context);
  const state =
    unit === undefined
      ? "not in place"
      : unit === own
        ? "in place"
        : "in place, but not as this version would write it";
  const asked = root === "/" ? askManager() : {};
  const reason = unit === own ? unrunnable(context) : undefined;
  const problem = reason && `${reason}. ${elsewhere}`;
  const status = { unit: path, state, ...(problem && { problem }), ...asked };
  if (json) printJson(context.io, status);
  else context.io.stdout.write(formatFields(status));
  return unit === own && problem === undefined ? 0 : 1;
}

const pathIn = ({ io }: Context, root: string, path = unitPath) => join(resolve(io.cwd, root), path);

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

/** Asks systemd for the state of the service; nothing where it does not run. */
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
