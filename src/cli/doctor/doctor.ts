/** `troupe doctor`: what may keep a server from doing well here, and what to do about each. */
import { type Context, codeOf, type ExitCode, faultsOf, loadFrom, printJson } from "../context.ts";
import type { Finding } from "./finding.ts";
import { examineInstallation } from "./installation.ts";
import { examineMachine } from "./machine.ts";

type Options = {
  /** Whether each provider is called once, which may cost a token or two. */
  readonly call?: boolean;
  readonly json?: boolean;
};

/** @returns 1 when there is a fault, 2 when it is one of the command line; warnings are no fault */
export async function doctor(context: Context, { call, json }: Options): Promise<ExitCode> {
  const loaded = loadFrom(context);
  const findings = [...examineMachine(), ...(await examineInstallation(loaded, call === true))];
  const isWell = findings.every(({ state }) => state !== "fault");
  if (json) printJson(context.io, { ok: isWell, findings });
  else for (const finding of findings) context.io.stdout.write(lines(finding));
  return isWell ? 0 : codeOf(faultsOf(loaded));
}

const marks = { ok: "ok   ", warning: "warn ", fault: "FAULT" };

const lines = ({ state, what, found, advice }: Finding) =>
  `${marks[state]} ${what}: ${found}\n${advice === undefined ? "" : `      → ${advice}\n`}`;
