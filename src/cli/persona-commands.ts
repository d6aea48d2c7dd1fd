/** The commands of `troupe personas`: their arguments, flags and help. */

import { InvalidArgumentError, Option } from "commander";
import { exampleNames } from "../facts/examples.ts";
import { exportFormats, importFormats } from "../personas/exchange/formats.ts";
import { type FailOn, parseFailOn } from "../personas/review/fail-on.ts";
import { filled, parseList, parsePositive, parseShare } from "./arguments.ts";
import { examples } from "./command.ts";
import { argument, type Declare, json, option, setFields, stored, variablesOption } from "./declare.ts";
import { reading } from "./help.ts";

/** Declares all of them. */
export function addPersonasCommands(personas: Declare): void {
  addPersonaCommands(personas);
  addPersonaVersionCommands(personas);
  addPersonaTestCommand(personas);
  addKeepTestCommand(personas);
  addPersonaReportCommand(personas);
  addVariantCommands(personas);
}

const namespace = option("--namespace <namespace>", "The folder within the folder of personas", filled).default(
  "imported",
);
const out = option("--out <folder>", "The folder of personas (default: the configured one)", filled);
const force = option("--force", "Replace files that exist");

function addPersonaCommands(personas: Declare): void {
  personas("list", "List them, with the model each would use", "listPersonas", json);
  personas(
    "show",
    "Print a persona's file",
    "showPersona",
    argument("<id>", "<namespace>/<name>, or with a version or label: <namespace>/<name>@<version>"),
    option("--resolved", "With the text of its includes in place"),
    option("--json", "Answer in JSON, with the model it would use").conflicts("resolved"),
    examples(
      "troupe personas show troupe/guide > personas/mine/guide.yaml",
      "troupe personas show acme/support@stable --resolved",
    ),
  );
  personas(
    "render",
    "Show what a call would send to each of a persona's models, and where each part came from; nothing is sent",
    "renderPersona",
    argument("<id>", "<namespace>/<name>, or with a version or label: <namespace>/<name>@<version>"),
    option("--input <text>", "What the user says; '-' reads the standard input, '@file' a file (default: Hello!)"),
    option("--messages <file>", "JSON: a list of messages, or a whole request, before the input", filled),
    variablesOption,
    setFields,
    option("--variant <name>", "One of the persona's variants (default: the one with the largest share)", filled),
    option("--model <model>", "<provider>/<model>, in place of the persona's list", filled),
    option("--user <id>", "The request's user", filled),
    option("--stream", "As a stream is asked for"),
    option("--json", "Answer in JSON, with all of each value"),
    examples(
      "troupe personas render troupe/translator --input 'Good morning' --variables language=French",
      "troupe personas render troupe/guide --set temperature=1.5 --set max_tokens=99999 --json",
    ),
  );
  personas(
    "knowledge",
    "List the files that a persona knows, or show what a question would put before itself",
    "showKnowledge",
    argument("<id>", "<namespace>/<name>"),
    argument("[question]", "Default: the files are listed"),
    json,
    examples("troupe personas knowledge acme/clerk", "troupe personas knowledge acme/clerk 'When do I get my refund?'"),
  );
  const folder = argument("[folder]", "Default: the configured one");
  personas("check", "Check every file in a folder, test files too", "checkPersonas", folder, json);
  personas(
    "new",
    "Write a new persona; what is not given is asked at a terminal",
    "newPersona",
    argument("[id]", "<namespace>/<name>", filled),
    option("--description <text>", "What it does, in a sentence", filled),
    option("--system <text>", "Its system text", filled),
    option("--model <models>", "<provider>/<model>, or several (default: one of each large maker)", parseList),
    out,
    force,
    examples("troupe personas new", "troupe personas new acme/helper --description 'Helps.' --system 'You help.'"),
  );
  personas(
    "import",
    "Make personas of other programs' files: character cards, Modelfiles, prompts",
    "importPersona",
    argument("<files...>", "Files, folders or globs; the format is found by a file's name and content"),
    new Option("--format <format>", "The format, where the content leaves it open").choices(importFormats),
    namespace,
    option("--name <name>", "Its name (default: as the file says)", filled),
    option("--model <models>", "<provider>/<model>, or several (default: as the file says)", parseList),
    out,
    option("--dry-run", "Show what would be written, and write nothing"),
    force,
    json,
    examples(
      "troupe personas import zelda.png",
      "troupe personas import Modelfile --namespace acme --name helper",
      "troupe personas import .claude/agents --dry-run",
      "troupe personas import 'patterns/*/system.md' --namespace fabric",
    ),
  );
  personas(
    "export",
    "Write a persona in the form of another program",
    "exportPersona",
    argument("<id>", "<namespace>/<name>"),
    new Option("--format <format>", "The form").choices(exportFormats).makeOptionMandatory(),
    option("--out <file>", "The file to write (default: the output, where it is text)", filled),
    force,
    examples("troupe personas export acme/zelda --format card-v3-png --out zelda.png"),
  );
  const ofTests = option("--tests", "That of a test file");
  const ofLabels = option("--labels", "That of labels.yaml").conflicts("tests");
  const schema = personas(
    "schema",
    "Print the JSON Schema of a persona's file",
    "printPersonaSchema",
    ofTests,
    ofLabels,
  );
  reading(schema, []);
}

function addPersonaVersionCommands(personas: Declare): void {
  const reads = ["config", "data", "personas"] as const;
  const id = argument("<id>", "<namespace>/<name>", filled);
  const log = personas(
    "log",
    "List a persona's versions, with the commit that each came by and how its calls did",
    "logPersona",
    id,
    option("--all", "All that are kept (default: the latest 20)"),
    json,
  );
  const diff = personas(
    "diff",
    "Show what differs between two versions, includes in place",
    "diffPersonas",
    argument("<one>", "<id>@<version>, the beginning of a version, or a label", filled),
    argument("[other]", "The same, or an id (default: what is in the folder now)", filled),
    examples("troupe personas diff acme/support@stable", "troupe personas diff acme/support@3f2a acme/support@next"),
  );
  const rollback = personas(
    "rollback",
    "Write a version's file back into the folder, or put a label on it",
    "rollBackPersona",
    id,
    argument("<version>", "The version, the beginning of one, or a label", filled),
    option("--label <label>", "Move that label of labels.yaml in place of the file", filled),
    json,
    examples(
      "troupe personas rollback acme/support 3f2a91c07b1e",
      "troupe personas rollback acme/support 3f2a --label stable",
    ),
  );
  for (const command of [log, diff, rollback]) reading(command, reads);
}

function addPersonaTestCommand(personas: Declare): void {
  const command = personas(
    "test",
    "Ask personas what their test files (<name>.test.yaml) say, and judge the answers",
    "testPersonas",
    argument("[ids...]", "Ids of personas, or globs such as 'acme/*' (default: all that have tests)"),
    option("--record", "Write the answers beside the tests, for --replay").conflicts("replay"),
    option("--replay", "Answer from what was recorded, without a key or any network"),
    option("--model <model>", "Let <provider>/<model> answer in place of the personas' own models", filled),
    option("--models <models>", "Ask each of these models in their place, and show which would do", parseList),
    option("--variant <name>", "Ask that variant of the personas (default: personas without their variants)", filled),
    option(
      "--against <other>",
      "Ask another version (<persona>@<version>, or @<label>) or <provider>/<model> too, and compare",
      filled,
    ),
    option("--grader <model>", "The model that grades each llm-rubric, in place of those of the files", filled),
    option("--repeat <times>", "Ask each test so often (default: as its file says, else once)", parsePositive),
    option("--threshold <share>", "The share of a test's repetitions that has to pass (default: 1)", parseShare),
    option("--concurrency <number>", "How many are asked at once (default: 4)", parsePositive),
    option("--filter <pattern>", "Only tests whose names this regular expression fits"),
    option(
      "--url <url>",
      "Ask a running server, with the key in TROUPE_KEY (default: the program asks by itself)",
      filled,
    ),
    option("--label <label>", "With --url: ask the preview that was pushed under that label", filled),
    option("--junit <file>", "Write the results as JUnit's XML", filled),
    option("--json [file]", "Write the results as JSON, to stdout where no file is named"),
    option("--yes", "Do not ask before tests that may cost more than $1"),
    "\nIt ends with 1 where a test failed, and with 2 where none failed and some could not be judged.",
    examples(
      "troupe personas test acme/support --record",
      "troupe personas test --replay --junit results.xml",
      `troupe personas test acme/support --against ${exampleNames.openai} --repeat 5 --threshold 0.8`,
      `troupe personas test acme/support --models ${exampleNames.openaiSmall},${exampleNames.openai} --record`,
    ),
  );
  // The price list that 'troupe prices update' stored is in the data folder.
  reading(command, [...stored, "personas"]);
}

function addKeepTestCommand(personas: Declare): void {
  const command = personas(
    "keep-test",
    "Make a test of a call: its question and what its answer has to be, in the persona's test file",
    "keepCallAsTest",
    argument("<request-id>", "As the answer's x-request-id has it; its caller has to have sent store: true", filled),
    option("--expect <text>", "A part of the answer, or what it has to do, as a model judges (default: all)", filled),
    option("--name <name>", "The test's name (default: how the question begins)", filled),
    option("--grader <model>", "The model that judges (default: the persona's first)", filled),
    variablesOption,
    examples(
      "troupe personas keep-test req_0199f0c2a1b87c3d8e4f5a6b7c8d9e0f",
      "troupe personas keep-test req_0199f0c2a1b87c3d8e4f5a6b7c8d9e0f --expect '14 days' --name 'knows the time'",
    ),
  );
  reading(command, ["config", "data", "personas"]);
}

const uploading = [
  option("--url <url>", "The server (default: the configuration's where it runs)", filled),
  option("--key <key>", "A key with preview among its surfaces (default: TROUPE_KEY, TROUPE_API_KEY)", filled),
];

function addPersonaReportCommand(personas: Declare): void {
  const command = personas(
    "report",
    "Say what a branch changes in what personas do: for the review of a pull request",
    "reportPersonas",
    argument("[ids...]", "Ids of personas, or globs such as 'acme/*' (default: all)"),
    option(
      "--against <ref>",
      "The branch, tag or commit of git that it is compared with, where this branch left it",
      filled,
    ).makeOptionMandatory(),
    option("--live", "Ask models for the answers of both sides (default: recordings answer, without a key)"),
    option("--fail-on <what>", "End with a failure for these: regression, error, cost+20%, latency+50%", failOn),
    option("--json [file]", "Write the report as JSON, to stdout where no file is named"),
    option("--html <file>", "Write it as HTML too, alone in one file", filled),
    option("--label <label>", "Upload it to a server too, whose console shows it on the personas' pages", filled),
    ...uploading,
    option("--yes", "Do not ask before answers that may cost more than $1"),
    "\nIt writes Markdown of at most 60 KB, as a comment on a pull request may have. With --fail-on it ends with 1 where a test" +
      "\nfails that did not, or a cost or latency rose by more; and with 2 where only verdicts or files are missing.",
    examples(
      "troupe personas report --against origin/main",
      "troupe personas report --against origin/main --fail-on regression,error,cost+20% --html report.html",
    ),
  );
  reading(command, [...stored, "personas"]);
}

/** Those of `troupe personas preview`. */
export function addPreviewCommands(previews: Declare): void {
  const server = [...uploading, json];
  const label = argument("<label>", "The preview's", filled);
  previews(
    "push",
    "Serve the personas of the folder as <persona>@<label>, in place of what was pushed under it before",
    "pushPreview",
    argument("[ids...]", "Ids of personas, or globs such as 'acme/*' (default: all)"),
    option("--label <label>", "Its name, such as pr-12", filled).makeOptionMandatory(),
    option("--days <days>", "When it ends by itself (default: as the server's previews.days says)", parsePositive),
    ...server,
    examples("troupe personas preview push --label pr-12 --url https://troupe.acme.example"),
  );
  reading(previews("list", "List the previews that the key may use", "listPreviews", ...server), ["config"]);
  reading(previews("drop", "End a preview", "dropPreview", label, ...server), ["config"]);
}

function failOn(text: string): FailOn {
  const found = parseFailOn(text);
  if (found === undefined)
    throw new InvalidArgumentError("It takes regression, error, cost+<percent>% and latency+<percent>%, with commas.");
  return found;
}

function addVariantCommands(personas: Declare): void {
  const id = argument("<id>", "<namespace>/<name>", filled);
  const variant = argument("<variant>", "Its name", filled);
  const show = personas(
    "variants",
    "Show a persona's variants: their calls, and how far each is from stopping itself",
    "showVariants",
    id,
    option("--since <time>", "A day (2026-11-22), a time, or a duration (7d, 24h, 10m); default: 30 days"),
    option("--until <time>", "In the same forms; default: the end of today, in UTC"),
    json,
  );
  const resume = personas(
    "resume",
    "Let a variant go on that has stopped itself, or was stopped",
    "resumeVariantByHand",
    id,
    variant,
    json,
  );
  const stop = personas(
    "stop",
    "Stop a variant: its callers go to the others, until it is resumed or the persona's content changes",
    "stopVariantByHand",
    id,
    variant,
    json,
    examples("troupe personas stop acme/support next"),
  );
  const promote = personas(
    "promote",
    "Let all callers go to one variant: it goes on, and all others are stopped",
    "promoteVariantByHand",
    id,
    variant,
    json,
    examples("troupe personas promote acme/support next"),
  );
  for (const command of [show, stop, promote, resume]) reading(command, [...stored, "personas"]);
}
