/** The commands, their flags and their help. */

import { Argument, Command, CommanderError, Option } from "commander";
import { withoutKeys } from "../auth/key-secret.ts";
import { versionLine } from "../build-info.ts";
import type { Flags } from "../config/load.ts";
import type { Io } from "../lib/io.ts";
import { ledgerFilters } from "../store/ledger-columns.ts";
import { callEnds } from "../store/usage.ts";
import { groupWords } from "../usage/report.ts";
import { periods } from "../usage/spans.ts";
import { printOpenApi, printVersion } from "./about.ts";
import { collected, filled, parseDollars, parseHash } from "./arguments.ts";
import { type Act, examples, late } from "./command.ts";
import { completionScript, type Shell, shells } from "./completion.ts";
import type { Context, ExitCode } from "./context.ts";
import { addHelp, addHints, flagsFor, helpHint, reading, refuseUnknown, sharedOptions } from "./help.ts";
import { addKeyCommands } from "./key-commands.ts";
import type { ServeOptions } from "./serve.ts";

/**
 * Runs one command. @param args without the program's own name
 * @returns the exit code: 0 done, 1 failed, 2 wrong usage
 */
export async function run(args: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = 0;
  let called: Command | undefined;
  const program = buildProgram(io, isStart(args), (result) => {
    code = result;
  });
  program.hook("preAction", (_, command) => {
    called = command;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    const { reportFailure } = await import("./failure.ts");
    return reportFailure(error, io, called && helpHint(called));
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
  addHints(program);
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
    .description("Ask the running server for its health")
    .option("--json", "Answer in JSON")
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

function addUsageCommands(program: Command, act: Act): void {
  const usage = reading(program.command("usage"), "config", "data")
    .description("What calls used and cost, by the ledger")
    .option("--by <groups>", groupWords, "day")
    .option("--since <time>", "A day (2026-11-22), a time, or a span (7d, 24h); default: 30 days")
    .option("--until <time>", "Likewise; default: the end of today, in UTC");
  for (const name of ledgerFilters) {
    const flag = name.replaceAll("_", "-");
    const words = name.replaceAll("_", " ");
    if (name === "key")
      usage.option("--key <key>", "Only calls of that key: its id, its name, or the beginning of one", filled);
    else if (name === "ended")
      usage.addOption(new Option("--ended <end>", "Only calls that ended so").choices(callEnds));
    else usage.option(`--${flag} <${flag}>`, `Only calls of that ${words}; '': those without one`);
  }
  usage
    .option(
      "--metadata <key=value>",
      "Only calls with that in their metadata, if the configuration names the key; again for more",
      collected,
    )
    .option("--lines", "The ledger's lines in place of sums, the newest first; JSON has one on each line")
    .addOption(new Option("--json", "Answer in JSON").conflicts("csv"))
    .option("--csv", "Answer as CSV")
    .addHelpText(
      "after",
      examples(
        "troupe usage --by key,model --since 7d",
        "troupe usage --by month,tag --since 2026-01-01 --csv > usage.csv",
        "troupe usage --lines --json --since 24h > calls.jsonl",
      ),
    )
    .action(act(late("showUsage")));
  const alerts = program.command("alerts").description("Messages to an operator");
  reading(alerts.command("test"), "config")
    .description("Send one to each address of the configuration")
    .action(act(late("testAlerts")));
  const prices = program.command("prices").description("Prices of models");
  reading(prices.command("update"), "config", "data")
    .description("Show what a newer price list changes, and take it where its hash is given")
    .argument("<source>", "A file or an address: this program's form, or genai-prices' data.json", filled)
    .option("--sha256 <hash>", "Take it, if that is the SHA-256 of the file; the changes are shown with it", parseHash)
    .option("--json", "Answer in JSON")
    .addHelpText(
      "after",
      examples(
        "troupe prices update https://raw.githubusercontent.com/pydantic/genai-prices/main/prices/data.json",
        "troupe prices update prices.json --sha256 <the hash that was shown>",
      ),
    )
    .action(act(late("updatePrices")));
  reading(prices.command("show"), "config", "data")
    .description("What a model costs, and where its price comes from")
    .argument("<model>", "<provider>/<model>")
    .option("--json", "Answer in JSON")
    .addHelpText("after", examples("troupe prices show openai/gpt-4o"))
    .action(act(late("showPrice")));
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
    .option(...json)
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
    .option("--json", "Answer in JSON")
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
    .option(...json)
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
