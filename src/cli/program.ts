/** The commands, their flags and their help. */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { maxGraceMs } from "../auth/grace.ts";
import { withoutKeys } from "../auth/key-secret.ts";
import { versionLine } from "../build-info.ts";
import type { Flags } from "../config/load.ts";
import { surfaceNames } from "../config/surfaces.ts";
import { systemClock } from "../lib/clock.ts";
import type { Io } from "../lib/io.ts";
import { tiers } from "../protocols/tiers.ts";
import { periods } from "../usage/spans.ts";
import { printOpenApi, printVersion } from "./about.ts";
import { completionScript, type Shell, shells } from "./completion.ts";
import type { Context, ExitCode } from "./context.ts";
import { parseExpiry, parseSpan } from "./expiry.ts";
import { addHelp, flagsFor, reading, refuseUnknown, sharedOptions } from "./help.ts";
import type { CreateOptions, UpdateOptions } from "./keys.ts";
import type { ServeOptions } from "./serve.ts";

/**
 * Runs one command. @param args without the program's own name
 * @returns the exit code: 0 done, 1 failed, 2 wrong usage
 */
export async function run(args: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = 0;
  const program = buildProgram(io, isStart(args), (result) => {
    code = result;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    const { reportFailure } = await import("./failure.ts");
    return reportFailure(error, io);
  }
}

/**
 * Whether a command line can only start the server or ask for the version: it has long flags with their values alone. Where in
 * doubt, it may be another.
 */
function isStart([first, ...others]: readonly string[]): boolean {
  const words = first === "serve" || first === undefined ? others : [first, ...others];
  const isFlag = (word: string) => word.startsWith("--") && word !== "--help";
  return words.every((word, at) => isFlag(word) || (at > 0 && withValue.has(words[at - 1]!)));
}

const allFlags = ["config", "host", "port", "data", "personas", "workers"] as const;
const withValue: ReadonlySet<string> = new Set(allFlags.map((name) => `--${name}`));

const actions = () => import("./actions.ts");
type Actions = Awaited<ReturnType<typeof actions>>;

/** What a command does, loaded when it is run. */
function late<Name extends keyof Actions>(name: Name) {
  type Action = (...given: Parameters<Actions[Name]>) => ExitCode | Promise<ExitCode>;
  return async (...given: Parameters<Actions[Name]>) => ((await actions())[name] as Action)(...given);
}

/** @param isStart whether the command line needs no command but `serve`: making the others takes 4 ms */
function buildProgram(io: Io, isStart: boolean, done: (code: ExitCode) => void): Command {
  const program = new Command("troupe");
  /** A command's function, as commander calls it: arguments, options, the command. */
  const act =
    <Given extends unknown[]>(command: (context: Context, ...given: Given) => ExitCode | Promise<ExitCode>) =>
    async (...given: unknown[]) => {
      const context = { io, flags: flagsFor(given.at(-1) as Command, program.opts<Flags>()) };
      done(await command(context, ...(given.slice(0, -1) as Given)));
    };

  program
    .description("A chat-completion gateway and persona orchestrator.")
    .version(versionLine, "-v, --version", "Show the version")
    .helpOption("-h, --help", "Show help")
    .option("-c, --config <file>", "The configuration file (default: ./troupe.yaml, /etc/troupe/troupe.yaml)", filled)
    .option("--host <host>", "Listen there (default: 127.0.0.1)")
    .option("-p, --port <port>", "Listen on that port; 0 takes a free one (default: 8080)")
    .option("--data <folder>", "The data folder (default: ./data)", filled)
    .option("--personas <folder>", "The folder of personas (default: ./personas, else those in the executable)", filled)
    .option("--workers <count>", "Serve with that many processes; 0 is one for each core (default: 1)")
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: (command) => (command === program ? [] : sharedOptions(command)),
    })
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(withoutKeys(text)),
      getOutHelpWidth: () => 100,
      getErrHelpWidth: () => 100,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .showHelpAfterError("Run 'troupe --help' for the commands and their flags.")
    .exitOverride()
    .addHelpText(
      "after",
      examples("troupe", "OPENAI_API_KEY=… troupe --port 9000", "troupe keys create alice --tier pro", "troupe check"),
    );

  reading(program.command("serve", { isDefault: true }), ...allFlags)
    .description("Run the server (the default)")
    .option("--new-database", "Replace a lost or damaged database by a new one, without the old keys")
    // A default command is given every word that is no command, and would only call it one too many.
    .allowExcessArguments()
    .action((options: ServeOptions, command: Command) => {
      const [word] = command.args;
      if (word !== undefined) refuseUnknown(program, word);
      return act(async (context: Context, options: ServeOptions) => {
        const { serve } = await import("./serve.ts");
        return serve(context, options);
      })(options, command);
    });
  if (!isStart) addCommands(program, act);
  addHelp(program, () => done(0));
  return program;
}

function addCommands(program: Command, act: Act): void {
  reading(program.command("check"), ...allFlags)
    .description("Check the configuration, personas and data folder without starting")
    .option("--json", "Answer in JSON")
    .action(act(late("check")));

  reading(program.command("doctor"), ...allFlags)
    .description("Diagnose the machine and the installation, and say what to do")
    .option("--call", "Send each provider one small request, which costs a few tokens")
    .option("--json", "Answer in JSON")
    .action(act(late("doctor")));

  reading(program.command("health"), "config", "host", "port")
    .description("Check the health of the running server")
    .action(act(late("checkHealth")));

  addKeyCommands(program, act);
  addBudgetCommands(program, act);
  addUsageCommands(program, act);
  addPersonaCommands(program, act);
  addServiceCommands(program, act);
  addDataCommands(program, act);

  const config = program.command("config").description("The configuration in force");
  reading(config.command("print"), ...allFlags)
    .description("Print the configuration and where each value came from, without secrets")
    .option("--json", "Answer in JSON")
    .action(act(late("printConfig")));
  config
    .command("schema")
    .description("Print the JSON Schema of troupe.yaml")
    .action(act(late("printConfigSchema")));

  program.command("openapi").description("Print the API's description (OpenAPI, JSON)").action(act(printOpenApi));
  program
    .command("completion")
    .description("Print a completion script")
    .addArgument(new Argument("<shell>").choices(shells))
    .addHelpText(
      "after",
      examples("source <(troupe completion bash)", "troupe completion fish > ~/.config/fish/completions/troupe.fish"),
    )
    .action(
      act(({ io }, shell: Shell) => {
        io.stdout.write(completionScript(program, shell));
        return 0;
      }),
    );
  program
    .command("version")
    .description("Print what this executable is")
    .option("--json", "Answer in JSON")
    .action(act(printVersion));
}

type Act = <Given extends unknown[]>(
  command: (context: Context, ...given: Given) => ExitCode | Promise<ExitCode>,
) => (...given: unknown[]) => Promise<void>;

function addUsageCommands(program: Command, act: Act): void {
  reading(program.command("usage"), "config", "data")
    .description("What calls used and cost, by the ledger")
    .option(
      "--by <groups>",
      "1 to 3 of day, key, tag, surface, format, model, persona, provider, upstream_model",
      "day",
    )
    .option("--since <time>", "A day (2026-11-22), a time, or a span (7d, 24h); default: 30 days")
    .option("--until <time>", "Likewise; default: the end of today, in UTC")
    .option("--key <key>", "Only calls of that key: its id, its name, or the beginning of one", filled)
    .option("--tag <tag>", "Only calls with that tag")
    .option("--model <model>", "Only calls that asked for that model", filled)
    .option("--persona <persona>", "Only calls of that persona", filled)
    .option("--provider <provider>", "Only calls to that provider", filled)
    .addOption(new Option("--json", "Answer in JSON").conflicts("csv"))
    .option("--csv", "Answer as CSV")
    .addHelpText("after", examples("troupe usage --by key,model --since 7d", "troupe usage --by day --csv > usage.csv"))
    .action(act(late("showUsage")));
  const prices = program.command("prices").description("Prices of models");
  reading(prices.command("show"), "config")
    .description("What a model costs, and where its price comes from")
    .argument("<model>", "<provider>/<model>")
    .option("--json", "Answer in JSON")
    .addHelpText("after", examples("troupe prices show openai/gpt-4o"))
    .action(act(late("showPrice")));
}

function addKeyCommands(program: Command, act: Act): void {
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
      `Surfaces it may use: ${surfaceNames.join(", ")} (default: the first two)`,
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
    .option("--surfaces <names>", `Surfaces it may use: ${surfaceNames.join(", ")}`, parseSurfaces)
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

function addBudgetCommands(program: Command, act: Act): void {
  const budgets = program
    .command("budgets")
    .description("Budgets: what may be spent by keys, tags, plans and all calls");
  const json = ["--json", "Answer in JSON"] as const;
  const scope = [
    "<scope>",
    "all, tier:<name>, tag:<name>, or a key: its id, its name or the beginning of one",
    filled,
  ] as const;
  const period = () => new Argument("<period>", "In UTC, or altogether").choices(periods);
  reading(budgets.command("list"), "config", "data")
    .description("List all budgets, with what is spent and left of each")
    .option(...json)
    .action(act(late("listBudgets")));
  reading(budgets.command("set"), "config", "data")
    .description("Set a budget, from the next call on; what was spent stays spent")
    .argument(...scope)
    .addArgument(period())
    .argument("<dollars>", "How much may be spent", parseDollars)
    .option(...json)
    .addHelpText("after", examples("troupe budgets set tag:team-a month 400", "troupe budgets set alice prepaid 25"))
    .action(act(late("setBudget")));
  reading(budgets.command("top-up"), "config", "data")
    .description("Raise a budget that was set")
    .argument(...scope)
    .addArgument(period())
    .argument("<dollars>", "By how much", parseDollars)
    .option(...json)
    .action(act(late("topUpBudget")));
  reading(budgets.command("remove"), "config", "data")
    .description("Remove a budget that was set; the configuration's applies again")
    .argument(...scope)
    .addArgument(period())
    .action(act(late("removeBudget")));
}

function addServiceCommands(program: Command, act: Act): void {
  const service = program.command("service").description("The systemd service that runs this program");
  const root = ["--root <folder>", "A folder that stands for / (default: /)"] as const;
  service
    .command("print")
    .description("Print the unit")
    .action(act(late("printService")));
  service
    .command("install")
    .description("Install the unit in /etc/systemd/system, and say what to do next")
    .option(...root)
    .action(act(late("installService")));
  service
    .command("status")
    .description("Show whether the unit is installed, and its state")
    .option(...root)
    .action(act(late("showServiceStatus")));
  service
    .command("uninstall")
    .description("Remove the unit; the data stays")
    .option(...root)
    .action(act(late("uninstallService")));
}

function addPersonaCommands(program: Command, act: Act): void {
  const personas = program.command("personas").description("Personas: list, show and check them");
  const json = ["--json", "Answer in JSON"] as const;
  reading(personas.command("list"), "config", "personas")
    .description("List them, with the model each would use")
    .option(...json)
    .action(act(late("listPersonas")));
  reading(personas.command("show"), "config", "personas")
    .description("Print a persona's file")
    .argument("<id>", "<namespace>/<name>")
    .option("--json", "Answer in JSON, with the model it would use")
    .addHelpText("after", examples("troupe personas show troupe/guide > personas/mine/guide.yaml"))
    .action(act(late("showPersona")));
  reading(personas.command("check"), "config", "personas")
    .description("Check every file in a folder")
    .argument("[folder]", "Default: the configured one")
    .option(...json)
    .action(act(late("checkPersonas")));
  personas
    .command("schema")
    .description("Print the JSON Schema of a persona's file")
    .action(act(late("printPersonaSchema")));
}

function addDataCommands(program: Command, act: Act): void {
  const data = program.command("data").description("The data folder: keys, stored answers, conversations");
  const json = ["--json", "Answer in JSON"] as const;
  reading(data.command("stats"), "config", "data")
    .description("Show its contents and size")
    .option(...json)
    .action(act(late("showDataStats")));
  reading(data.command("backup"), "config", "data")
    .description("Copy everything to one new file, while the server runs")
    .argument("<file>", "Must not exist yet")
    .addHelpText("after", examples("troupe data backup /var/backups/troupe-$(date +%F).db"))
    .action(act(late("backUpData")));
  reading(data.command("restore"), "config", "data")
    .description("Restore a backup after checking it; the server must not run")
    .argument("<file>", "What 'troupe data backup' made")
    .action(act(late("restoreData")));
  reading(data.command("migrate"), "config", "data")
    .description("Migrate the database to this version's schema, as the next start would")
    .option("--dry-run", "Migrate a copy, and report; the server may run")
    .action(act(late("migrate")));
  reading(data.command("move"), "config", "data")
    .description("Move everything from a data folder into PostgreSQL, or back; no server may run on either")
    .option("--to <place>", "A folder, or postgres://… (default: `store` of the configuration)", filled)
    .option("--from <place>", "The same (default: the data folder, or `store` where --to is a folder)", filled)
    .option("--copy", "Take the data folder as it is now, while a server runs on it")
    .option(...json)
    .addHelpText(
      "after",
      examples("TROUPE_STORE=postgres://… troupe data move", "TROUPE_STORE=postgres://… troupe data move --to ./data"),
    )
    .action(act(late("moveData")));
  reading(data.command("prune"), "config", "data")
    .description("Remove expired and deleted data now, and shrink the file")
    .option(...json)
    .action(act(late("pruneData")));
}

const examples = (...lines: string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join("")}`;

function filled(text: string): string {
  if (text === "") throw new InvalidArgumentError("It must not be empty.");
  return text;
}

function parseCount(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

function graceOf(text: string): number {
  const span = parseSpan(text);
  if (span === undefined || span > maxGraceMs)
    throw new InvalidArgumentError("It must be a span such as 1h, at most 30d.");
  return span;
}

const when = "A time such as 2027-01-31T12:00:00Z, a date, or a span such as 90d or 12h";

function parseTime(text: string): number {
  const time = parseExpiry(text, systemClock.now());
  if (time === undefined) throw new InvalidArgumentError("It must be a date, a time, or a span such as 90d.");
  return time;
}

const orNone =
  <T>(parse: (text: string) => T) =>
  (text: string): T | "none" =>
    text === "none" ? text : parse(text);

type OrNone = number | "none";
type UpdateFlags = Omit<UpdateOptions, "expiresAt" | "perMinute" | "tokensPerMinute"> & {
  readonly expires?: OrNone;
  readonly perMinute?: OrNone;
  readonly tokensPerMinute?: OrNone;
};

/** Those that are given, null for none. */
function changesFrom(given: Readonly<Record<string, OrNone | undefined>>): Record<string, number | null> {
  const changes = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value === "none" ? null : value] as const],
  );
  return Object.fromEntries(changes);
}

/** An empty text is an empty list. */
const parseNames = (text: string) => (text === "" ? [] : parseList(text));

function parseDollars(text: string): number {
  if (!/^\d{1,9}(\.\d{1,6})?$/.test(text)) throw new InvalidArgumentError("It must be a sum such as 25 or 0.5.");
  return Number(text);
}

function parseList(text: string): string[] {
  return text.split(",").map((item) => item.trim());
}

function parseSurfaces(text: string): string[] {
  const names = parseList(text);
  const known: readonly string[] = surfaceNames;
  if (!names.every((name) => known.includes(name)))
    throw new InvalidArgumentError(`Known: ${surfaceNames.join(", ")}.`);
  return names;
}
