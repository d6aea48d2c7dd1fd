/** Which of the clients in `versions.json` are on this machine: programs on the PATH, packages of a Python. */
import versions from "./versions.json" with { type: "json" };

export type Program = keyof typeof versions.programs;
export type PythonPackage = keyof typeof versions.python;

/** The Python that has the packages: `TROUPE_TEST_PYTHON`, else `python3`; null: there is none. */
export const python = Bun.which(process.env["TROUPE_TEST_PYTHON"] ?? "python3");

const importable = python === null ? new Set<string>() : importableBy(python);

/** @returns those of the packages that this Python finds; nothing is imported, as that takes seconds */
function importableBy(interpreter: string): Set<string> {
  const script = `
import importlib.util, sys
def found(name):
    try: return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError: return False
print("\\n".join(name for name in sys.argv[1:] if found(name)))`;
  const { stdout } = Bun.spawnSync([interpreter, "-c", script, ...Object.keys(versions.python)]);
  return new Set(stdout.toString().split("\n"));
}

/** @returns why a program's tests are skipped; undefined where it is installed */
export function lacksProgram(name: Program): string | undefined {
  return Bun.which(name) === null ? `${name} is not installed (${versions.programs[name]})` : undefined;
}

/** @returns why a package's tests are skipped; undefined where it is installed */
export function lacksPython(name: PythonPackage): string | undefined {
  return importable.has(name) ? undefined : `Python's ${name} is not installed (${versions.python[name]})`;
}

// As a program of its own it names what is missing, one a line.
if (import.meta.main) {
  const missing = [
    ...(Object.keys(versions.programs) as Program[]).map(lacksProgram),
    ...(Object.keys(versions.python) as PythonPackage[]).map(lacksPython),
  ];
  for (const line of missing) if (line !== undefined) console.log(`${line}; its tests are skipped`);
}
