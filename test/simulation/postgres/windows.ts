/** Rate windows, as the database's function decides them. */
import type { ModelWindows } from "../../helpers/model-windows.ts";
import { changed, type Statement } from "./server.ts";

const listed = (list: unknown) => (list as string).slice(1, -1).split(",").filter(Boolean);

export const windowStatements = (windows: ModelWindows): readonly Statement[] => [
  [
    "troupe.hit_window(",
    ([caller, limit, , , ids, ages, counts]) => {
      const [aged, counted] = [listed(ages), listed(counts)];
      const hits = listed(ids).map((id, at) => [id, Number(aged[at]), Number(counted[at])] as const);
      const { growsMs, ...rest } = windows.hitNow(caller as string, limit as number, hits);
      return { rows: [{ ...rest, grows_ms: growsMs }] };
    },
  ],
  ["delete from troupe.windows where caller in", () => changed(0)],
];
