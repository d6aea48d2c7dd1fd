/** Runs before every test file (bunfig.toml). */
import "../src/lib/json/proto-member.ts";
import fc from "fast-check";
import { runs } from "./helpers/long-form.ts";
import { testSeed } from "./helpers/seed.ts";

fc.configureGlobal({ seed: testSeed, numRuns: runs(100) });

// Gives each test ten minutes, and none has a limit of its own but where the long form takes longer: a machine with a load of twenty takes ten times as long for each, and
// what hangs is seen all the same. Bun's five seconds are no limit for a process or a property. A limit set here
// would hold for the first file alone, and one on the command line not for a bare `bun test`, so each file sets it in its own first line.
Bun.plugin({
  name: "time limits",
  setup(build) {
    build.onLoad({ filter: /\.test\.ts$/ }, async ({ path }) => ({
      contents: `import { setDefaultTimeout as limitEach } from "bun:test"; limitEach(600_000); ${await Bun.file(path).text()}`,
      loader: "ts",
    }));
  },
});
