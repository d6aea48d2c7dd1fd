/** `troupe doctor`: checks the machine and the installation, with advice for each problem. */
import type { Check } from "../../operate/doctor/check.ts";
import { examineMachine } from "../../operate/doctor/machine.ts";
import { type Context, codeOf, type ExitCode, errorsOf, loadFrom, UsageError } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { type ClientOptions, examineClient } from "./client.ts";
import { examineInstallation } from "./installation.ts";
import { examineModels } from "./models.ts";

type Options = ClientOptions & {
  /** True if each provider is called once, which may cost a token or two. */
  readonly call?: boolean;
  /** With `call`: the models that are played, or those in use. */
  readonly models?: "used" | readonly string[];
};

/** @returns 1 when there is an error, 2 when the command line is invalid; warnings are no error */
export async function doctor(context: Context, options: Options): Promise<ExitCode> {
  const { call, models, json, client } = options;
  if (client !== undefined) {
    const checks = await examineClient(context, client, options);
    return report(context, checks, json) ? 0 : 1;
  }
  for (const name of ["url", "key", "silence"] as const)
    if (options[name] !== undefined) throw new UsageError(`--${name} is for --client.`);
  if (models !== undefined && !call) throw new UsageError("--models needs --call, as each model is called.");
  const loaded = loadFrom(context);
  const examined = await examineInstallation(context, loaded, call === true);
  const played = models === undefined || "errors" in loaded ? [] : await examineModels(context, loaded.config, models);
  const checks = [...examineMachine(), ...examined, ...played];
  return report(context, checks, json) ? 0 : codeOf(errorsOf(loaded));
}

/** @returns whether all is well but for warnings */
function report({ io }: Context, checks: readonly Check[], json = false): boolean {
  const isWell = checks.every(({ state }) => state !== "error");
  if (json) printJson(io, { ok: isWell, checks });
  else for (const check of checks) io.stdout.write(lines(check));
  return isWell;
}

const marks = { ok: "ok   ", warning: "warn ", error: "ERROR" };

const lines = ({ state, what, found, advice }: Check) =>
  `${marks[state]} ${what}: ${found}\n${advice === undefined ? "" : `      → ${advice}\n`}`;
