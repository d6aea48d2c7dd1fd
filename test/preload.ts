/** Runs before every test file (bunfig.toml). */
import "../src/lib/proto-member.ts";
import fc from "fast-check";
import { testSeed } from "./helpers/seed.ts";

fc.configureGlobal({ seed: testSeed });
