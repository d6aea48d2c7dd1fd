import { mkdirSync } from "node:fs";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { describeStore } from "../contract.ts";

describeStore("SQLite", async () => {
  const folder = new TempFolder();
  mkdirSync(folder.file("copy"));
  return {
    open: async () => openStore(folder.path, { isServer: true }),
    // The operating system gives up the lock; nothing else happens at a kill.
    kill: (store) => store.close(),
    copyTarget: () => ({ path: folder.file("copy/troupe.db"), open: async () => openStore(folder.file("copy")) }),
    async [Symbol.asyncDispose]() {
      folder[Symbol.dispose]();
    },
  };
});
