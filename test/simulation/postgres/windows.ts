/** Rate windows, as the database's functions decide them. */
import type { WindowAsk } from "../../../src/store/shared-windows.ts";
import type { ModelWindows } from "../../helpers/model-windows.ts";
import { changed, type Statement } from "./server.ts";

const answer = (decided: object | undefined) => ({
  rows: [{ answer: decided === undefined ? null : JSON.stringify(decided) }],
});

export const windowStatements = (windows: ModelWindows): readonly Statement[] => [
  [
    "troupe.beat_node(",
    ([node, , isNew, counts]) => answer(windows.beatNow(node as string, isNew as boolean, counts as boolean)),
  ],
  [
    "troupe.exchange_windows(",
    ([node, , asks]) => answer(windows.exchangeNow(node as string, JSON.parse(asks as string) as WindowAsk[])),
  ],
  [
    "delete from troupe.window_holds where node",
    ([node]) => {
      windows.leaveNow(node as string);
      return changed(1);
    },
  ],
  ["select troupe.tidy_windows", () => changed(0)],
];
