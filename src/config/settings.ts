/** The settings that are one value each, and the names they go by outside the file. */
import type { TObject, TSchema } from "@sinclair/typebox";
import { ConfigFile } from "./schema.ts";

export type Setting = {
  /** `["log", "level"]` */
  readonly path: readonly string[];
  /** `TROUPE_LOG_LEVEL` */
  readonly variable: string;
  readonly schema: TSchema;
};

/** Set for the new process of an upgrade: the process id of its parent, which hands off to it. */
export const parentVariable = "TROUPE_PARENT_PID";

/** Set for a worker: its `WorkerSettings` as JSON. */
export const workerVariable = "TROUPE_WORKER";

/** Variables that move `listen` alone, or are no setting of the file. */
export const otherVariables = ["TROUPE_CONFIG", "TROUPE_HOST", "TROUPE_PORT", parentVariable, workerVariable] as const;

export const settings: readonly Setting[] = settingsIn(ConfigFile, []);

function settingsIn(schema: TObject, above: readonly string[]): Setting[] {
  return Object.entries(schema.properties).flatMap(([key, inner]) => {
    const path = [...above, key];
    if (inner["properties"] !== undefined) return settingsIn(inner as TObject, path);
    // A mapping whose keys are the operator's own has no one value.
    if (inner["patternProperties"] !== undefined) return [];
    return [{ path, variable: `TROUPE_${path.join("_").toUpperCase()}`, schema: inner }];
  });
}
