/** `troupe personas test`: asks personas what their test files say, and judges the answers. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../../config/config.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { printable } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { LiveAnswers, type Recordings, ReplayedAnswers, type TestedServer } from "../../operate/suites/answers.ts";
import { readRecording } from "../../operate/suites/recordings.ts";
import {
  type PlannedTest,
  planWhole,
  repetitionsOf,
  runTests,
  type TestedSide,
} from "../../operate/suites/run-tests.ts";
import { type LoadedSuite, loadSuites } from "../../operate/suites/suites.ts";
import { estimateCost, estimateWords } from "../../operate/suites/test-cost.ts";
import {
  comparisonText,
  reportJson,
  resultsText,
  type SideResult,
  testSummaryOf,
  testSummaryText,
} from "../../operate/suites/test-report.ts";
import type { Persona } from "../../personas/persona.ts";
import { recordingPath } from "../../personas/suites/find.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { CommandError, type Context, type ExitCode, printDiagnostics, UsageError, withConfig } from "../context.ts";
import { withLocalServer } from "../local-server.ts";
import { loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { junitXml } from "./junit.ts";
import { withAdditions } from "./knowledge.ts";
import { byCost, measuresJson, modelTable } from "./model-table.ts";
import { Progress } from "./progress.ts";
import { assertReadable, writeRecordings } from "./write-recordings.ts";

type TestOptions = {
  readonly record?: boolean;
  readonly replay?: boolean;
  /** The model that answers in place of the personas' own. */
  readonly model?: string;
  /** Models that are compared, each in place of the personas' own. */
  readonly models?: readonly string[];
  /** The variant that is asked; absent: the persona without its variants. */
  readonly variant?: string;
  /** A version of the persona, or a model, to be asked beside it. */
  readonly against?: string;
  readonly grader?: string;
  readonly repeat?: number;
  readonly threshold?: number;
  readonly concurrency?: number;
  readonly junit?: string;
  /** True: on stdout. */
  readonly json?: string | true;
  readonly yes?: boolean;
  readonly filter?: string;
  readonly url?: string;
  /** Of a preview of the server at `url`. */
  readonly label?: string;
};

/** Above so many dollars a person at the terminal is asked before anything is sent. */
const askAboveDollars = 1;
const defaultConcurrency = 4;
/** Each model of `--models` has a server in this process. */
const maxModels = 12;
/** So many reasons of failed calls are told. */
const maxCauses = 20;
/** The variable that holds the key for `--url`. */
const keyVariable = "TROUPE_KEY";
const errorCode: ExitCode = 2;

/** @param patterns ids of personas, or globs over them; none: all that have tests @returns 1 where a test failed, 2 where one could not be judged */
export function testPersonas(context: Context, patterns: readonly string[], options: TestOptions): Promise<ExitCode> {
  assertConsistent(options);
  return withConfig(
    context,
    async (config) => {
      const loaded = await loadPersonas(context, config.personas);
      const wants = (id: string) => patterns.length === 0 || patterns.some((pattern) => globMatches(pattern, id));
      const { suites, errors, faulty } = await loadSuites(loaded, { wants, grader: options.grader });
      printDiagnostics(context.io, [
        ...loaded.errors.filter(({ file }) => isWanted(file, loaded.paths, wants)),
        ...errors,
      ]);
      assertFound(patterns, [...suites.map(({ persona }) => persona.id), ...faulty], loaded.from);
      if (suites.length === 0) return errorCode;
      const code = await new TestCommand(context, config, options, suites, loaded.personas).run();
      // The tests of a file with faults have neither passed nor failed.
      return code === 0 && faulty.length > 0 ? errorCode : code;
    },
    { keyless: options.replay === true },
  );
}

/** Faults of the personas that are tested. */
function isWanted(file: string, paths: ReadonlyMap<string, string>, wants: (id: string) => boolean): boolean {
  const found = [...paths].find(([, path]) => path === file);
  return found === undefined || wants(found[0]);
}

function assertConsistent({ record, replay, model, models, variant, against, url, label }: TestOptions): void {
  if (label !== undefined && url === undefined)
    throw new UsageError("--label is of a preview on a running server: say which by --url.");
  const beside = Object.entries({ model, against, url }).find(([, value]) => value !== undefined)?.[0];
  if (models !== undefined && beside !== undefined)
    throw new UsageError(`--models is for models beside each other, by the program itself: leave --${beside} out.`);
  if (record && replay) throw new UsageError("--record and --replay exclude each other.");
  const live = record ? "--record" : replay ? "--replay" : undefined;
  if (live !== undefined && against !== undefined) throw new UsageError(`${live} and --against exclude each other.`);
  if (live !== undefined && model !== undefined)
    throw new UsageError(`${live} is for the personas' own models: leave --model out.`);
  if (live !== undefined && url !== undefined)
    throw new UsageError(`${live} is for the files of this folder: leave --url out.`);
  if (live !== undefined && variant !== undefined)
    throw new UsageError(`${live} is for personas without their variants: leave --variant out.`);
  if ((model !== undefined || variant !== undefined) && url !== undefined)
    throw new UsageError(
      `--${model === undefined ? "variant" : "model"} needs the server of this process: leave --url out.`,
    );
}

/** @param ids of the personas that have tests */
function assertFound(patterns: readonly string[], ids: readonly string[], from: string): void {
  const lost = patterns.find((pattern) => !ids.some((id) => globMatches(pattern, id)));
  if (lost !== undefined) throw new CommandError(`There are no tests of '${printable(lost)}' in ${from}.`);
  if (ids.length === 0)
    throw new CommandError(
      `There are no tests in ${from}: <name>.test.yaml beside a persona, see docs/persona-tests.md.`,
    );
}

class TestCommand {
  readonly #context: Context;
  readonly #config: Config;
  readonly #options: TestOptions;
  readonly #suites: readonly LoadedSuite[];
  readonly #ids: ReadonlySet<string>;
  #planned: readonly PlannedTest[] = [];
  /** Why calls failed, as this process knows it and no answer says. */
  readonly #causes = new Set<string>();
  readonly #startedAt = systemClock.now();

  constructor(
    context: Context,
    config: Config,
    options: TestOptions,
    suites: readonly LoadedSuite[],
    personas: readonly Persona[],
  ) {
    this.#context = context;
    this.#config = config;
    this.#options = options;
    this.#suites = suites;
    this.#ids = new Set(personas.map(({ id }) => id));
  }

  /** Each test with what the persona, its knowledge among it, makes of it. */
  #plan(): Promise<PlannedTest[]> {
    const { filter, model } = this.#options;
    const pattern = filter === undefined ? undefined : patternFrom(filter);
    const wanted = this.#suites.flatMap(({ suite, persona }) => {
      const asked = this.#asked(persona, model);
      const tests = suite.tests.filter(({ name }) => pattern === undefined || pattern.test(name));
      return tests.map((test) => ({ test, persona: asked, file: suite.file }));
    });
    const personas = [...new Set(wanted.map(({ persona }) => persona))];
    return withAdditions(this.#config.personas.folder, personas, async (find) => {
      const planned: PlannedTest[] = [];
      for (const { test, persona, file } of wanted) planned.push(await planWhole(test, persona, file, find));
      return planned;
    });
  }

  async run(): Promise<ExitCode> {
    const { replay, record, url, against } = this.#options;
    this.#planned = await this.#plan();
    if (this.#planned.length === 0) throw new CommandError("No test has a name that --filter fits.");
    if (record) assertReadable(this.#suites);
    const { models } = this.#options;
    if (models !== undefined) this.#assertModels(models);
    if (replay) return this.#finish(this.#replayed(models));
    if (models !== undefined) return this.#serve(models, []);
    const version = against === undefined ? undefined : this.#versionIn(against);
    if (url !== undefined) {
      if (against !== undefined && version === undefined)
        throw new UsageError("--against with a model needs the server of this process: leave --url out.");
      const endpoint = this.#remote(url);
      return this.#ask([
        this.#side(endpoint, this.#options.label),
        ...(version === undefined ? [] : [this.#side(endpoint, version)]),
      ]);
    }
    const { model } = this.#options;
    return this.#withServer(model, (server) => {
      if (against === undefined) return this.#ask([this.#side(server)]);
      if (version !== undefined) return this.#ask([this.#side(server), this.#side(server, version)]);
      return this.#withServer(against, (other) =>
        this.#ask([this.#side(server), { ...this.#side(other), label: against }]),
      );
    });
  }

  /** @throws UsageError for what is no model, and before anything is asked for one that nobody serves */
  #assertModels(models: readonly string[]): void {
    const accounts = new Accounts(this.#config.providers, providers);
    if (models.length > maxModels) throw new UsageError(`--models takes ${maxModels} models at most.`);
    for (const [at, model] of models.entries()) {
      const name = printable(model);
      const id = parseModelId(model);
      if (id === undefined)
        throw new UsageError(`--models takes <provider>/<model>, with commas between: '${name}' is none.`);
      if (models.indexOf(model) !== at) throw new UsageError(`--models names ${name} twice.`);
      if (this.#options.replay !== true && accounts.find(id.namespace) === undefined)
        throw new UsageError(`--models: no provider is set up for '${name}'.`);
    }
  }

  #replayed(models: readonly string[] | undefined): TestedSide[] {
    const recordings = this.#readRecordings();
    if (models === undefined) return [{ label: "recorded", answers: new ReplayedAnswers(recordings) }];
    return models.map((model) => ({ label: model, answers: new ReplayedAnswers(recordings, model) }));
  }

  /** A server for each of the models, which are asked beside each other. */
  #serve(models: readonly string[], sides: readonly TestedSide[]): Promise<ExitCode> {
    const [model, ...others] = models;
    if (model === undefined) return this.#ask(sides);
    return this.#withServer(model, (server) =>
      this.#serve(others, [...sides, { ...this.#side(server), label: model }]),
    );
  }

  /** @param model that answers for every persona */
  #withServer(model: string | undefined, use: (server: TestedServer) => Promise<ExitCode>): Promise<ExitCode> {
    const { against } = this.#options;
    const version = against === undefined ? undefined : this.#versionIn(against);
    const versions = version === undefined ? [] : this.#suites.map(({ persona }) => `${persona.id}@${version}`);
    const personas = (persona: Persona) => this.#asked(persona, model);
    return withLocalServer(this.#context, this.#config, use, {
      ...{ personas, versions },
      onFailure: (cause) => this.#causes.size < maxCauses && this.#causes.add(cause),
    });
  }

  /** The persona as tests ask it: callers are shared out among variants, tests are not. @throws UsageError */
  #asked({ variants = [], ...persona }: Persona, model: string | undefined): Persona {
    const { variant: name } = this.#options;
    const found = name === undefined ? persona : variants.find((variant) => variant.name === name)?.persona;
    if (found === undefined && this.#suites.some((one) => one.persona.id === persona.id))
      throw new UsageError(`${persona.id} has no variant '${printable(name!)}'.`);
    const one = found ?? persona;
    return model === undefined ? one : { ...one, targets: [model] };
  }

  /** @param version of the persona; absent: the one that is served */
  #side(endpoint: TestedServer, version?: string): TestedSide {
    const modelOf = (id: string) => (version === undefined ? id : `${id}@${version}`);
    const { model, variant } = this.#options;
    return {
      label: version === undefined ? (model ?? variant ?? "current") : `@${version}`,
      answers: new LiveAnswers(endpoint, modelOf, (id) => this.#ids.has(id)),
    };
  }

  /** @returns the version or label in `<persona>@<version>` or `@<version>`; undefined for a model */
  #versionIn(against: string): string | undefined {
    const at = against.lastIndexOf("@");
    const id = against.slice(0, Math.max(0, at));
    if (at === 0) return against.slice(1);
    if (!this.#ids.has(id)) {
      if (parseModelId(against) === undefined)
        throw new UsageError("--against takes <persona>@<version or label>, @<label>, or <provider>/<model>.");
      return undefined;
    }
    const other = this.#suites.find(({ persona }) => persona.id !== id);
    if (other !== undefined)
      throw new UsageError(
        `--against ${against} is of one persona: name it alone, or give '@${against.slice(at + 1)}' for each.`,
      );
    return against.slice(at + 1);
  }

  #remote(url: string): TestedServer {
    const key = this.#context.io.env[keyVariable];
    if (!key) throw new UsageError(`--url needs an API key in the variable ${keyVariable}.`);
    if (!/^https?:\/\//.test(url))
      throw new UsageError("--url takes the address of a server, such as http://127.0.0.1:8080.");
    return { url: url.replace(/\/+$/, ""), key, fetchOptions: {} };
  }

  async #ask(sides: readonly TestedSide[]): Promise<ExitCode> {
    const { io } = this.#context;
    const { repeat, model, models, against, yes } = this.#options;
    const askable = this.#planned.filter(({ problem }) => problem === undefined);
    const modelsOf = ({ prepared }: PlannedTest, side: number) => {
      const other = models?.[side] ?? (side === 0 ? model : against);
      return other === undefined || this.#isVersion(other) ? prepared.persona.targets : [other];
    };
    const estimate = estimateCost(
      sides.flatMap((_, side) =>
        askable.map((planned) => ({
          prepared: planned.prepared,
          models: modelsOf(planned, side),
          times: repetitionsOf(planned, repeat),
        })),
      ),
      this.#config,
    );
    io.stderr.write(`${estimateWords(estimate)}\n`);
    if (!yes && io.confirm !== undefined && estimate.most > askAboveDollars) {
      if (!(await io.confirm("Go on?"))) throw new CommandError("Nothing was asked.");
    }
    return this.#finish(sides);
  }

  #isVersion = (against: string) =>
    against.startsWith("@") || this.#ids.has(against.slice(0, against.lastIndexOf("@")));

  async #finish(sides: readonly TestedSide[]): Promise<ExitCode> {
    const results = await this.#run(sides);
    for (const cause of this.#causes) this.#context.io.stderr.write(`error: ${printable(cause)}\n`);
    const { record, models } = this.#options;
    const place = { stderr: this.#context.io.stderr, config: this.#config, suites: this.#suites };
    if (record) {
      const recorded = results.map(({ results: ofModel }, at) => ({ model: models?.[at], results: ofModel }));
      await writeRecordings(place, recorded);
    }
    this.#report(models === undefined ? results : byCost(results));
    const judged = models === undefined ? results[0]!.results : results.flatMap((one) => one.results);
    const { failed, errors } = testSummaryOf(judged);
    if (failed > 0) return 1;
    return errors > 0 ? errorCode : 0;
  }

  async #run(sides: readonly TestedSide[]): Promise<SideResult[]> {
    const { io } = this.#context;
    const { repeat, threshold, concurrency } = this.#options;
    const bounds = this.#suites.flatMap(({ suite }) => suite.maxConcurrency ?? []);
    const total = this.#planned.reduce((sum, planned) => sum + repetitionsOf(planned, repeat), 0) * sides.length;
    const progress = new Progress(io.stderr, total);
    try {
      const results = await runTests(this.#planned, sides, {
        concurrency: concurrency ?? Math.min(...bounds, ...(bounds.length === 0 ? [defaultConcurrency] : [])),
        repeat,
        threshold,
        onRun: ({ prepared }, { label }, { verdict, answer }) => {
          const side = sides.length > 1 ? ` (${label})` : "";
          const time = answer === undefined ? "" : `, ${answer.latencyMs} ms`;
          progress.add(verdict, `${verdict} ${prepared.persona.id}: ${printable(prepared.test.name)}${side}${time}`);
        },
      });
      return results.map((ofSide, at) => ({ label: sides[at]!.label, results: ofSide }));
    } finally {
      progress.end();
    }
  }

  #report(sides: readonly SideResult[]): void {
    const { io } = this.#context;
    const { json, junit, models } = this.#options;
    const [main, other] = sides;
    if (junit !== undefined) this.#write(junit, junitXml(models === undefined ? [main!] : sides, this.#startedAt));
    const report = () => reportJson(sides, models && measuresJson);
    if (typeof json === "string") this.#write(json, `${JSON.stringify(report(), null, 2)}\n`);
    if (json === true) {
      printJson(io, report());
      return;
    }
    if (models !== undefined) {
      io.stdout.write(modelTable(sides));
      return;
    }
    io.stdout.write(resultsText(main!.results));
    if (other !== undefined) io.stdout.write(`\n${comparisonText([main!, other])}`);
    io.stdout.write(`\n${testSummaryText(testSummaryOf(main!.results))}\n`);
  }

  /** @throws CommandError */
  #write(file: string, text: string): void {
    try {
      writeFileSync(resolve(this.#context.io.cwd, file), text);
    } catch (error) {
      throw new CommandError(`${printable(file)} can't be written: ${(error as Error).message}`);
    }
  }

  /** One file that can't be read keeps no other from being replayed. */
  #readRecordings(): Recordings {
    return new Map(
      this.#suites.map(({ suite }) => {
        const read = readRecording(recordingPath(suite.file));
        if (typeof read === "string") this.#context.io.stderr.write(`${read}\n`);
        return [suite.file, read];
      }),
    );
  }
}

function patternFrom(filter: string): RegExp {
  try {
    return new RegExp(filter, "i");
  } catch (error) {
    throw new UsageError(`--filter is no regular expression: ${(error as Error).message}`);
  }
}
