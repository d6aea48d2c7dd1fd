/** All commands but `serve`: their arguments, flags and help. */
import { Argument, type Command, Option } from "commander";
import { periods } from "../api/words.ts";
import { keySurfaces } from "../config/surfaces.ts";
import { exampleNames } from "../facts/examples.ts";
import { clientNames } from "../operate/doctor/clients/contracts.ts";
import { capabilityNames } from "../protocols/models.ts";
import { tiers } from "../protocols/tiers.ts";
import { severalNames } from "../store/ledger/chosen-lines.ts";
import { ledgerFilters } from "../store/ledger/columns.ts";
import { leastFilters, severalWords, statusWords } from "../usage/budgets/own-filters.ts";
import { groupWords } from "../usage/ledger/report.ts";

import {
  collected,
  filled,
  graceOf,
  orNone,
  parseCapabilities,
  parseCount,
  parseDay,
  parseDollars,
  parseHash,
  parseList,
  parseModels,
  parseNames,
  parseSurfaces,
  parseTime,
  parseTolerance,
  upTo,
} from "./arguments.ts";
import { type ActionRunner, allFlags, examples, late } from "./command.ts";
import { shells } from "./completion.ts";
import { argument, type Declare, json, option, setFields, stored, variablesOption } from "./declare.ts";
import { type FlagName, reading } from "./help.ts";
import { addPersonasCommands, addPreviewCommands } from "./persona-commands.ts";

export function addCommands(program: Command, act: ActionRunner): void {
  /** @param reads the program's flags that its commands read */
  const commandsOf =
    (group: Command, reads: readonly FlagName[]): Declare =>
    (name, description, action, ...parts) => {
      const command = reading(group.command(name), reads).description(description);
      for (const part of parts) {
        if (part instanceof Option) command.addOption(part);
        else if (part instanceof Argument) command.addArgument(part);
        else command.addHelpText("after", part);
      }
      return command.action(act(late(action)));
    };
  const group = (name: string, description: string, reads: readonly FlagName[]): Declare =>
    commandsOf(program.command(name).description(description), reads);

  const top = commandsOf(program, allFlags);
  top("check", "Check the configuration, personas and data folder without starting", "check", json);
  const call = option("--call", "Send each provider one small request, which costs a few tokens");
  const models = option(
    "--models <used|list>",
    "With --call: play plain, streamed, tool, structured, thinking and image calls of each model in use, or of those named",
    parseModels,
  );
  top(
    "doctor",
    "Diagnose the machine and the installation, and say what to do",
    "doctor",
    call,
    models,
    new Option(
      "--client <client>",
      "Play that client against a running server instead, through whatever stands between",
    ).choices(clientNames),
    option(
      "--url <url>",
      "With --client: its base address, as the client has it (http://127.0.0.1:8080/gateway)",
      filled,
    ),
    option(
      "--key <key>",
      "With --client: an API key that may call builtin/probe (default: TROUPE_KEY, TROUPE_API_KEY)",
      filled,
    ),
    option("--silence <seconds>", "With --client: how long a model is silent (default: 20)", upTo(60)),
    json,
    examples("troupe doctor --call", "troupe doctor --client claude-code --url https://troupe.example.com/gateway"),
  );
  top(
    "chat",
    "Talk with a persona or a model: at the terminal, once, or through pipes",
    "chat",
    argument("<model>", "A persona, or <provider>/<model>", filled),
    argument("[prompt...]", "A question; with text on the standard input, what to do with that"),
    option("--url <url>", "The server (default: the configuration's where it runs, else one of this process)", filled),
    option("--key <key>", "Its API key (default: TROUPE_KEY, TROUPE_API_KEY, or the first key's file)", filled),
    option("--system <text>", "A system text, behind the persona's; '@file' reads one", filled),
    variablesOption,
    setFields,
    option("--no-stream", "Wait for the whole answer"),
    option("--json", "Answer in JSON: the whole completion"),
    examples(
      "troupe chat troupe/guide",
      `troupe chat ${exampleNames.openaiSmall} 'What is a gateway?' --set temperature=0`,
      "cat notes.txt | troupe chat troupe/minutes 'Only the decisions'",
    ),
  );
  commandsOf(program, stored)(
    "models",
    "List the models of the providers that are set up",
    "listModels",
    argument("[pattern]", "A glob over <provider>/<model>, or a part of it", filled),
    option("--has <words>", `Only those known to have all of: ${capabilityNames.join(", ")}`, parseCapabilities),
    option("--ending", "Only those that have ended, or end within six months"),
    option("--offline", "Ask no provider: only what is known here"),
    json,
    examples(
      "troupe models",
      "troupe models 'openai/*mini*'",
      "troupe models --has vision,tools",
      "troupe models --ending",
    ),
  );
  commandsOf(program, ["port"])(
    "demo",
    "Run a throw-away server with made-up data, for a look at the console",
    "demo",
    option("--seed <number>", "Other numbers than the usual ones (default: 24)", parseCount),
    option("--lines <number>", "Calls in the ledger, at most 1000000 (default: 24000)", upTo(1_000_000)),
    option("--persona-count <number>", "Personas in all, at most 2000 (default: 5)", upTo(2_000)),
    option("--no-live", "Make no calls while it runs"),
    option("--no-open", "Do not open the browser"),
    examples("troupe demo", "troupe demo --port 9000 --no-open"),
  );
  const health = commandsOf(program, ["config", "host", "port"]);
  health("health", "Ask the running server for its health", "checkHealth", json);
  addKeyCommands(group("keys", "API keys", stored));
  addBudgetCommands(group("budgets", "Budgets: what may be spent by keys, tags, plans and all calls", stored));
  addUsageCommand(commandsOf(program, stored));
  addReconcile(commandsOf(program, stored));
  const alerts = group("alerts", "Messages to an operator", ["config"]);
  alerts("test", "Send one to each address of the configuration", "testAlerts", json);
  addFactsCommands(group("facts", "What is known of models, prices among it", stored));
  addPriceCommands(group("prices", "Prices of models", stored));
  const personas = program.command("personas").description("Personas: list, show, check and test them");
  const ofPersonas = ["config", "personas"] as const;
  addPersonasCommands(commandsOf(personas, ofPersonas));
  const previews = personas.command("preview").description("Serve the personas of a branch under a label, for a time");
  addPreviewCommands(commandsOf(previews, ofPersonas));
  addServiceCommands(group("service", "The systemd service that runs this program", []));
  addDataCommands(group("data", "The data folder: keys, stored answers, conversations", stored));
  const config = group("config", "The configuration in force", allFlags);
  config("print", "Print the configuration and where each value came from, without secrets", "printConfig", json);
  reading(config("schema", "Print the JSON Schema of troupe.yaml", "printConfigSchema"), []);
  const replacing = option("--force", "Replace a file that exists");
  reading(config("init", "Write a troupe.yaml to begin with, and its schema for editors", "initConfig", replacing), []);
  const about = commandsOf(program, []);
  const imports = group("import", "Configurations of other programs", []);
  imports(
    "litellm",
    "Make a configuration of one of LiteLLM's proxy, and list what has no counterpart",
    "importLiteLlm",
    argument("<config.yaml>", "LiteLLM's file", filled),
    option("--output <file>", "Where to write it (default: the standard output)", filled),
    option("--force", "Replace a file that exists"),
    examples("troupe import litellm config.yaml --output troupe.yaml"),
  );
  about("openapi", "Print the API's description (OpenAPI, JSON)", "printOpenApi");
  about(
    "completion",
    "Print a completion script",
    "printCompletion",
    new Argument("<shell>").choices(shells),
    examples("source <(troupe completion bash)", "troupe completion fish > ~/.config/fish/completions/troupe.fish"),
  );
  about("version", "Print what this executable is", "printVersion", json);
}

const key = argument("<key>", "Its id, name, the whole key, or a prefix of id or key that only one key has", filled);
const yes = option("--yes", "Do not ask for confirmation where the given prefix is short");
const when = "A time such as 2027-01-31T12:00:00Z, a date, or a duration such as 90d or 12h";

function addKeyCommands(keys: Declare): void {
  keys(
    "create",
    "Create a key; it is shown only once",
    "createKey",
    argument("<name>", "Who or what it is for"),
    new Option("--tier <tier>", "Its plan").choices(tiers).default("pro"),
    option("--per-minute <number>", "Requests per minute (an enterprise key needs it)", parseCount),
    option("--tokens-per-minute <number>", "Tokens per minute (default: no limit)", parseCount),
    option(
      "--surfaces <names>",
      `Surfaces it may use: ${keySurfaces.join(", ")} (default: the first two; raw: providers' own APIs)`,
      parseSurfaces,
    ),
    option(
      "--models <globs>",
      "Models and personas it may use, e.g. 'openai/*,anthropic/claude-*' (default: all)",
      parseList,
    ),
    option("--tags <names>", "Tags that its calls count under too, e.g. 'team-a,batch'", parseNames),
    option("--expires <when>", `${when} (default: never)`, parseTime),
    json,
    examples("troupe keys create alice", "troupe keys create ci --tier free --surfaces gateway --expires 30d"),
  );
  keys(
    "update",
    "Change a key, from the next request on; what is not given stays as it is",
    "updateKey",
    key,
    option("--name <name>", "Who or what it is for"),
    new Option("--tier <tier>", "Its plan").choices(tiers),
    option("--per-minute <number>", "Requests per minute, or 'none' for its plan's", orNone(parseCount)),
    option("--tokens-per-minute <number>", "Tokens per minute, or 'none'", orNone(parseCount)),
    option(
      "--surfaces <names>",
      `Surfaces it may use: ${keySurfaces.join(", ")} (raw: providers' own APIs)`,
      parseSurfaces,
    ),
    option("--models <globs>", "Models and personas it may use, '*' for all", parseList),
    option("--tags <names>", "Tags that its calls count under too; '' for none", parseNames),
    option("--expires <when>", `${when}, or 'none'`, orNone(parseTime)),
    yes,
    json,
    examples("troupe keys update alice --tags team-a", "troupe keys update ci --per-minute none --expires none"),
  );
  keys("list", "List all keys", "listKeys", json);
  keys("show", "Show one key", "showKey", key, json);
  keys("revoke", "Revoke a key, from the next request on", "revokeKey", key, yes, json);
  keys(
    "rotate",
    "Replace a key by a new one with the same rights; the old one is refused at once, or after its grace",
    "rotateKey",
    key,
    option("--grace <duration>", "How long the old key stays valid, e.g. 1h or 7d; at most 30d", graceOf),
    yes,
    json,
  );
}

function addBudgetCommands(budgets: Declare): void {
  const scope = argument(
    "<scope>",
    "all, tier:<name>, tag:<name>, or a key: its id, its name or a prefix of one; behind it, model:<pattern> counts calls of such models alone",
    filled,
  );
  const period = new Argument("<period>", "In UTC, or altogether").choices(periods);
  budgets("list", "List all budgets, with what is spent and left of each", "listBudgets", json);
  budgets(
    "set",
    "Set a budget, from the next call on; what was spent stays spent",
    "setBudget",
    scope,
    period,
    argument("<dollars>", "How much may be spent", parseDollars),
    json,
    examples(
      "troupe budgets set tag:team-a month 400",
      "troupe budgets set alice prepaid 25",
      "troupe budgets set alice model:'openai/*' day 5",
    ),
  );
  const more = argument("<dollars>", "By how much", parseDollars);
  budgets("top-up", "Raise a budget that was set", "topUpBudget", scope, period, more, json);
  const remove = "Remove a budget that was set; the configuration's applies again";
  budgets("remove", remove, "removeBudget", scope, period, json);
}

function addUsageCommand(declare: Declare): void {
  const filters = ledgerFilters.map((name) => {
    const flag = name.replaceAll("_", "-");
    if (name === "key")
      return option("--key <key>", "Only calls of that key: its id, its name, or a prefix of one", filled);
    if (severalNames.includes(name))
      return option(`--${flag} <words>`, `Only those of that ${name.replace("_", " ")}: ${severalWords(name)}`);
    return option(`--${flag} <${flag}>`, `Only calls of that ${name.replaceAll("_", " ")}; '': those without one`);
  });
  declare(
    "usage",
    "What calls used and cost, by the ledger",
    "showUsage",
    new Option("--by <groups>", groupWords).default("day"),
    option("--since <time>", "A day (2026-11-22), a time, or a duration (7d, 24h, 10m); default: 30 days"),
    option("--until <time>", "In the same forms; default: the end of today, in UTC"),
    ...filters,
    option(
      "--metadata <key=value>",
      "Only calls with that in their metadata, if the configuration names the key; again for more",
      collected,
    ),
    option("--first-token", "With quantiles of the time to the first token, estimated from the ledger's counts"),
    ...Object.entries(leastFilters).map(([name, { description }]) =>
      option(`--${name.replaceAll("_", "-")} <number>`, `With --lines: ${description.slice(0, -1)}`),
    ),
    option("--status <statuses>", `With --lines: ${statusWords.slice(0, -1)}`),
    option("--lines", "The ledger's lines in place of sums, the newest first; JSON has one on each line"),
    option("--json", "Answer in JSON").conflicts("csv"),
    option("--csv", "Answer as CSV"),
    examples(
      "troupe usage --by key,model --since 7d",
      "troupe usage --by month,tag --since 2026-01-01 --csv > usage.csv",
      "troupe usage --lines --json --since 24h > calls.jsonl",
      "troupe usage --lines --csv --since 24h --ended refused,broken --status 429,5xx",
    ),
  );
}

function addReconcile(top: Declare): void {
  top(
    "reconcile",
    "Hold the ledger against OpenAI's and Anthropic's own reports of use and cost, by day, model and tier",
    "reconcileReports",
    option("--since <day>", "The first day, in UTC (2026-11-22, or 14d); default: seven days before --until"),
    option("--until <day>", "The day after the last; default: today, which is not reported yet"),
    option("--report <file>", "A file of costs or use that the account's console exported; again for more", collected),
    option(
      "--provider <name>",
      "A configured provider, if it is not at the vendor's own address; again for more",
      collected,
    ),
    option("--project <id>", "Only that project (OpenAI) or workspace (Anthropic); again for more", collected),
    option("--tolerance <share>", "Exit with 1 if the totals lie further apart, such as 0.5%", parseTolerance),
    option("--all", "Show the rows that agree, too"),
    json,
    examples(
      "OPENAI_ADMIN_KEY=sk-admin-… troupe reconcile --since 2026-11-01 --tolerance 0.5%",
      "troupe reconcile --report costs.csv --report usage.csv --since 2026-11-01 --until 2026-12-01",
    ),
  );
}

function addFactsCommands(facts: Declare): void {
  facts(
    "show",
    "Which facts are in use, or what they say of a model",
    "showFacts",
    argument("[model]", "<provider>/<model>", filled),
    option("--explain", "With a model: which row says each fact, and where it was read"),
    option(
      "--url <url>",
      "The server whose learned facts are shown (default: the configuration's where it runs)",
      filled,
    ),
    option("--key <key>", "Its API key, with admin among its surfaces (default: TROUPE_KEY, TROUPE_API_KEY)", filled),
    json,
    examples("troupe facts show", `troupe facts show ${exampleNames.openai} --explain`),
  );
  facts(
    "update",
    "Show what newer facts change, and take them where they are proved",
    "updateFacts",
    option("--from <place>", "Their pointer's address or folder, or a file of facts (default: facts.from)", filled),
    option("--sha256 <hash>", "Take a file that is not signed, if that is its SHA-256", parseHash),
    option("--force", "Take them even if they are older, or take the price of a model in use away"),
    json,
    examples(
      "troupe facts update",
      "troupe facts update --from https://example.org/facts/facts.json",
      "troupe facts update --from facts-<hash>.json --sha256 <hash>",
    ),
  );
  facts(
    "diff",
    "Show what differs between the facts in use and those of a file, or of the executable",
    "diffFacts",
    argument("[file]", "A file of facts, or its address", filled),
    json,
    examples("troupe facts diff", "troupe facts diff facts-<hash>.json"),
  );
  facts("rollback", "Go back to the facts that were in use before", "rollBackFacts", json);
}

/** Where genai-prices publishes what it has now; its older addresses stand still. */
const liveList = "https://raw.githubusercontent.com/pydantic/genai-prices/main/prices/new_data/v2/data.json";

function addPriceCommands(prices: Declare): void {
  prices(
    "update",
    "Show what a newer price list changes, and take it where its hash is given",
    "updatePrices",
    argument("<source>", "A file or an address: this program's form, or genai-prices' data.json", filled),
    option("--sha256 <hash>", "Take it, if that is the SHA-256 of the file; the changes are shown with it", parseHash),
    option(
      "--as-of <date>",
      "The day on which a list was published that does not say it itself, as genai-prices'",
      parseDay,
    ),
    option("--force", "With --sha256: take it even if it is older, or takes the price of a model in use away"),
    json,
    examples(
      `troupe prices update ${liveList} --as-of 2026-11-28`,
      "troupe prices update prices.json --sha256 <the hash that was shown>",
    ),
  );
  const model = argument("<model>", "<provider>/<model>");
  const example = examples(`troupe prices show ${exampleNames.openai}`);
  prices("show", "What a model costs, and where its price comes from", "showPrice", model, json, example);
}

function addServiceCommands(service: Declare): void {
  const root = option("--root <folder>", "A folder that stands for / (default: /)");
  service("print", "Print the unit", "printService");
  service("install", "Install the unit in /etc/systemd/system, and say what to do next", "installService", root, json);
  service("status", "Show whether the unit is installed, and its state", "showServiceStatus", root, json);
  service("uninstall", "Remove the unit; the data stays", "uninstallService", root, json);
}

function addDataCommands(data: Declare): void {
  data("stats", "Show its contents and size", "showDataStats", json);
  data(
    "backup",
    "Copy everything to one new file, while the server runs",
    "backUpData",
    argument("<file>", "Must not exist yet"),
    json,
    examples("troupe data backup /var/backups/troupe-$(date +%F).db"),
  );
  const backup = argument("<file>", "What 'troupe data backup' made");
  data("restore", "Restore a backup after checking it; the server must not run", "restoreData", backup, json);
  const dryRun = option("--dry-run", "Migrate a copy, and report; the server may run");
  data("migrate", "Migrate the database to this version's schema, as the next start would", "migrate", dryRun, json);
  data(
    "move",
    "Move everything from a data folder into PostgreSQL; no server may run on either",
    "moveData",
    option("--to <url>", "postgres://… (default: `store` of the configuration)", filled),
    option("--from <folder>", "Default: the data folder", filled),
    option("--copy", "Take the data folder as it is now, while a server runs on it"),
    json,
    examples("TROUPE_STORE=postgres://… troupe data move"),
  );
  data("prune", "Remove expired and deleted data now, and shrink the file", "pruneData", json);
}
