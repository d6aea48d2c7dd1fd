/** The program: its flags, `serve`, and how a command line is run. */
import { Command, CommanderError } from "commander";
import { withoutKeys } from "../auth/key-secret.ts";
import { versionLine } from "../build-info.ts";
import type { Flags } from "../config/load.ts";
import { withoutQuotes } from "../config/variables.ts";
import type { Io } from "../lib/process/io.ts";
import { filled } from "./arguments.ts";
import { type ActionRunner, allFlags, examples, refuseRepeated } from "./command.ts";
import type { ServeOptions } from "./commands/serve.ts";
import type { Context, ExitCode } from "./context.ts";
import { addHelp, addHints, flagsFor, helpHint, reading, refuseUnknown, sharedOptions } from "./help.ts";

/**
 * Runs one command. @param args without the program's own name
 * @returns the exit code: 0 done, 1 failed, 2 wrong usage
 */
export async function run(args: readonly string[], given: Io): Promise<ExitCode> {
  const io = { ...given, env: withoutQuotes(given.env) };
  let code: ExitCode = 0;
  let called: Command | undefined;
  const program = await buildProgram(io, isStart(args), (result) => {
    code = result;
  });
  program.hook("preAction", (_, command) => {
    called = command;
  });
  try {
    await program.parseAsync(withModels(args), { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    const { reportFailure } = await import("./print/failure.ts");
    return reportFailure(error, io, called && helpHint(called));
  }
}

/**
 * True if a command line can only start the server or ask for the version: it has long flags with their values alone. Where in
 * doubt, it may be another.
 */
function isStart([first, ...others]: readonly string[]): boolean {
  const words = first === "serve" || first === undefined ? others : [first, ...others];
  const isFlag = (word: string) => word.startsWith("--") && word !== "--help";
  return words.every((word, at) => isFlag(word) || (at > 0 && withValue.has(words[at - 1]!)));
}

/** A budget's models stand behind whom it holds, as a word of their own that is part of that. */
const withModels = (args: readonly string[]): readonly string[] =>
  args.includes("budgets")
    ? args.flatMap((word, at) => {
        if (word.startsWith("model:") && at > 0) return [];
        const next = args[at + 1];
        return next?.startsWith("model:") ? [`${word} ${next}`] : [word];
      })
    : args;

const withValue: ReadonlySet<string> = new Set(allFlags.map((name) => `--${name}`));

/** @param isStart whether the command line needs no command but `serve`: making the others takes 4 ms */
export async function buildProgram(io: Io, isStart: boolean, done: (code: ExitCode) => void): Promise<Command> {
  const program = new Command("troupe");
  const act: ActionRunner =
    (action) =>
    async (...given) => {
      const context = { io, flags: flagsFor(given.at(-1) as Command, program.opts<Flags>()) };
      done(await action(context, ...(given as never[])));
    };

  program
    .description("A chat-completion gateway and persona orchestrator.")
    .version(versionLine, "-v, --version", "Show the version")
    .helpOption("-h, --help", "Show help")
    .option("-c, --config <file>", "The configuration file (default: ./troupe.yaml, /etc/troupe/troupe.yaml)", filled)
    .option("--host <host>", "The host to listen at (default: 127.0.0.1)")
    .option("-p, --port <port>", "The port to listen at; 0 takes a free one (default: 8080)")
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

  reading(program.command("serve", { isDefault: true }), allFlags)
    .description("Run the server (the default)")
    .option("--new-database", "Replace a lost or damaged database by a new one, without the old keys")
    // A default command is given every word that is no command, and would only call it one too many.
    .allowExcessArguments()
    .action(
      act(async (context: Context, options: ServeOptions, command: Command) => {
        const [word] = command.args;
        if (word !== undefined) refuseUnknown(program, word);
        const { serve } = await import("./commands/serve.ts");
        return serve(context, options);
      }),
    );
  if (!isStart) (await import("./commands.ts")).addCommands(program, act);
  addHelp(program, () => done(0));
  addHints(program);
  refuseRepeated(program);
  return program;
}
