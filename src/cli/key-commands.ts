/** The commands of API keys: their flags and their help. */
import { type Command, Option } from "commander";
import { keySurfaces } from "../config/surfaces.ts";
import { tiers } from "../protocols/tiers.ts";
import {
  changesFrom,
  filled,
  graceOf,
  type OrNone,
  orNone,
  parseCount,
  parseList,
  parseNames,
  parseSurfaces,
  parseTime,
} from "./arguments.ts";
import { type Act, examples, late } from "./command.ts";
import { reading } from "./help.ts";
import type { CreateOptions, UpdateOptions } from "./keys.ts";

export function addKeyCommands(program: Command, act: Act): void {
  const keys = program.command("keys").description("API keys");
  const json = ["--json", "Answer in JSON"] as const;
  const key = [
    "<key>",
    "Its id, its name, the whole key, or the beginning of id or key, if only one fits",
    filled,
  ] as const;
  const yes = ["--yes", "Do not ask where the beginning that is given is very short"] as const;
  reading(keys.command("create"), "config", "data")
    .description("Create a key; it is shown only once")
    .argument("<name>", "Whose it is, or what for")
    .addOption(new Option("--tier <tier>", "Its plan").choices(tiers).default("pro"))
    .option("--per-minute <number>", "Requests per minute (an enterprise key needs it)", parseCount)
    .option("--tokens-per-minute <number>", "Tokens per minute (default: no limit)", parseCount)
    .option(
      "--surfaces <names>",
      `Surfaces it may use: ${keySurfaces.join(", ")} (default: the first two; raw: providers' own APIs)`,
      parseSurfaces,
    )
    .option("--models <globs>", "Models it may use, e.g. 'openai/*,troupe/guide' (default: all)", parseList)
    .option("--tags <names>", "What its calls are counted under too, e.g. 'team-a,batch'", parseNames)
    .option("--expires <when>", `${when} (default: never)`, parseTime)
    .option(...json)
    .addHelpText(
      "after",
      examples("troupe keys create alice", "troupe keys create ci --tier free --surfaces gateway --expires 30d"),
    )
    .action(
      act((context, name: string, { expires, ...options }: CreateOptions & { expires?: number }) =>
        late("createKey")(context, name, { ...options, ...(expires !== undefined && { expiresAt: expires }) }),
      ),
    );
  reading(keys.command("update"), "config", "data")
    .description("Change a key, from the next request on; what is not named stays as it is")
    .argument(...key)
    .option("--name <name>", "Whose it is, or what for")
    .addOption(new Option("--tier <tier>", "Its plan").choices(tiers))
    .option("--per-minute <number>", "Requests per minute, or 'none' for its plan's", orNone(parseCount))
    .option("--tokens-per-minute <number>", "Tokens per minute, or 'none'", orNone(parseCount))
    .option(
      "--surfaces <names>",
      `Surfaces it may use: ${keySurfaces.join(", ")} (raw: providers' own APIs)`,
      parseSurfaces,
    )
    .option("--models <globs>", "Models it may use, '*' for all", parseList)
    .option("--tags <names>", "What its calls are counted under too; '' for nothing", parseNames)
    .option("--expires <when>", `${when}, or 'none'`, orNone(parseTime))
    .option(...yes)
    .option(...json)
    .addHelpText(
      "after",
      examples("troupe keys update alice --tags team-a", "troupe keys update ci --per-minute none --expires none"),
    )
    .action(
      act((context, given: string, { expires, perMinute, tokensPerMinute, ...options }: UpdateFlags) =>
        late("updateKey")(context, given, {
          ...options,
          ...changesFrom({ expiresAt: expires, perMinute, tokensPerMinute }),
        }),
      ),
    );
  reading(keys.command("list"), "config", "data")
    .description("List all keys")
    .option(...json)
    .action(act(late("listKeys")));
  reading(keys.command("show"), "config", "data")
    .description("Show one key")
    .argument(...key)
    .option(...json)
    .action(act(late("showKey")));
  reading(keys.command("revoke"), "config", "data")
    .description("Revoke a key, from the next request on")
    .argument(...key)
    .option(...yes)
    .option(...json)
    .action(act(late("revokeKey")));
  reading(keys.command("rotate"), "config", "data")
    .description("Replace a key by a new one with the same rights; the old one is refused at once, or after its grace")
    .argument(...key)
    .option("--grace <span>", "How long the old key is taken too, e.g. 1h or 7d; at most 30d", graceOf)
    .option(...yes)
    .option(...json)
    .action(act(late("rotateKey")));
}

export const when = "A time such as 2027-01-31T12:00:00Z, a date, or a span such as 90d or 12h";

type UpdateFlags = Omit<UpdateOptions, "expiresAt" | "perMinute" | "tokensPerMinute"> & {
  readonly expires?: OrNone;
  readonly perMinute?: OrNone;
  readonly tokensPerMinute?: OrNone;
};
