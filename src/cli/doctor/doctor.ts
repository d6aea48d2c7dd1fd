/** `troupe doctor`: checks the machine and the installation, with advice for each problem. */
import type { Check } from "../../operate/doctor/check.ts";
import { examineMachine } from "../../operate/doctor/machine.ts";
import { type Context, codeOf, type ExitCode, errorsOf, loadFrom } from "../context.ts";
import { printJson } from "../print-json.ts";
import { examineInstallation } from "./installation.ts";

type Options = {
  /** True if each provider is called once, which may cost a token or two. */
  readonly call?: boolean;
  readonly json?: boolean;
};

/** @returns 1 when there is an error, 2 when the command line is invalid; warnings are no error */
export async function doctor(context: Context, { call, json }: Options): Promise<ExitCode> {
  const loaded = loadFrom(context);
  const checks = [...examineMachine(), ...(await examineInstallation(context, loaded, call === true))];
  const isWell = checks.every(({ state }) => state !== "error");
  if (json) printJson(context.io, { ok: isWell, checks });
  else for (const check of checks) context.io.stdout.write(lines(check));
  return isWell ? 0 : codeOf(errorsOf(loaded));
}

const marks = { ok: "ok   ", warning: "warn ", error: "ERROR" };

const lines = ({ state, what, found, advice }: Check) =>
  `${marks[state]} ${what}: ${found}\n${advice === undefined ? "" : `      → ${advice}\n`}`;
