/** `troupe check`: everything a start would look at, without starting. */
import type { Config } from "../config/config.ts";
import { formatAddress } from "../config/listeners.ts";
import { systemClock } from "../lib/clock.ts";
import { type Fault, formatDiagnostic } from "../lib/yaml/yaml.ts";
import { dryRun } from "../server/dry-run.ts";
import { StorageError } from "../store/storage-error.ts";
import { type Context, codeOf, type ExitCode, loadFrom, printJson } from "./context.ts";
import { type LoadedPersonas, loadPersonas, noProvider, unreachable } from "./personas.ts";
import { formatFields } from "./table.ts";

type Findings = {
  readonly summary: Readonly<Record<string, string>>;
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
  readonly code: ExitCode;
};

export async function check(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  const { summary, faults, warnings, code } = await findingsOf(context);
  const ok = faults.length === 0;
  if (json) printJson(context.io, { ok, faults, warnings, summary });
  else {
    for (const warning of warnings) context.io.stderr.write(`warning: ${warning}\n`);
    for (const fault of faults) context.io.stderr.write(`${fault}\n`);
    context.io.stdout.write(formatFields(summary));
    context.io.stdout.write(ok ? "no faults\n" : `${faults.length} ${faults.length === 1 ? "fault" : "faults"}\n`);
  }
  return code;
}

async function findingsOf(context: Context): Promise<Findings> {
  const loaded = loadFrom(context);
  if ("faults" in loaded)
    return { summary: {}, faults: format(loaded.faults), warnings: [], code: codeOf(loaded.faults) };
  const { config, file = "none: every default" } = loaded;
  const personas = await loadPersonas(config.personas);
  const storage = storageOf(config);
  const faults = [...format(personas.faults), ...storage.faults];
  return {
    summary: {
      configuration: file,
      listen: config.listen
        .map(({ address, surfaces }) => `${formatAddress(address)} (${surfaces.join(", ")})`)
        .join(", "),
      providers: config.providers.map(({ name, baseUrl }) => `${name} (${baseUrl})`).join(", ") || "none",
      personas: `${personas.personas.length} in ${personas.from}`,
      data: storage.summary,
    },
    faults,
    code: faults.length === 0 ? 0 : 1,
    warnings: [...format(loaded.warnings), ...unreachableOf(personas, config)],
  };
}

const format = (faults: readonly Fault[]) => faults.map(formatDiagnostic);

const unreachableOf = ({ personas }: LoadedPersonas, config: Config) =>
  unreachable(personas, config).map((id) => `${id}: ${noProvider}`);

function storageOf(config: Config): { summary: string; faults: string[] } {
  try {
    const { keys } = dryRun(config, systemClock);
    if (keys === undefined) return { summary: `${config.data}, made at the first start`, faults: [] };
    const active = keys.filter(({ state }) => state === "active").length;
    return { summary: `${config.data} (${active} of ${keys.length} keys active)`, faults: [] };
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return { summary: config.data, faults: [error.message] };
  }
}
