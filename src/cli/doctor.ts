/** `troupe doctor`: what may keep a server from doing well here, and what to do about each. */
import { type Context, type ExitCode, printJson } from "./context.ts";
import { examineInstallation } from "./examine-installation.ts";
import { examineMachine } from "./examine-machine.ts";
import type { Finding } from "./finding.ts";

type Options = {
  /** Whether each provider is called once, which may cost a token or two. */
  readonly call?: boolean;
  readonly json?: boolean;
};

/** @returns 1 when there is a fault; warnings are no fault */
export async function doctor(context: Context, { call, json }: Options): Promise<ExitCode> {
  const findings = [...examineMachine(), ...(await examineInstallation(context, call === true))];
  const isWell = findings.every(({ state }) => state !== "fault");
  if (json) printJson(context.io, { ok: isWell, findings });
  else for (const finding of findings) context.io.stdout.write(lines(finding));
  return isWell ? 0 : 1;
}

const marks = { ok: "ok   ", warning: "warn ", fault: "FAULT" };

const lines = ({ state, what, found, advice }: Finding) =>
  `${marks[state]} ${what}: ${found}\n${advice === undefined ? "" : `      → ${advice}\n`}`;
