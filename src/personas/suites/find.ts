/** Finds the test files of a folder of personas: `<namespace>/<name>.test.yaml`. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";

const testFile = /\.test\.ya?ml$/i;
const recordingFile = /\.test\.recorded\.ya?ml$/i;

/** True for the name of a test file or of its recordings, which are no personas. */
export const isTestName = (name: string): boolean => testFile.test(name) || recordingFile.test(name);

/** Where the recordings of a test file are. */
export const recordingPath = (path: string): string => path.replace(testFile, ".test.recorded.yaml");

type FoundTests = { readonly path: string /** The id of the persona beside it. */; readonly persona: string };

/** @returns in the order of their names; none where the folder can't be read */
export async function findTests(folder: string): Promise<FoundTests[]> {
  const namespaces = await entriesOf(folder);
  const found = await Promise.all(
    namespaces.map(async (namespace) =>
      (await entriesOf(join(folder, namespace)))
        .filter((name) => testFile.test(name))
        .map((name) => ({
          path: join(folder, namespace, name),
          persona: `${namespace}/${name.replace(testFile, "")}`,
        })),
    ),
  );
  return found.flat();
}

async function entriesOf(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => !/^[._~#]/.test(name)).sort();
  } catch {
    return [];
  }
}
