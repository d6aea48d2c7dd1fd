/** `troupe personas report`: what a branch changes in what personas do, for whoever reviews it. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import type { Config } from "../../config/config.ts";
import { few } from "../../lib/text/few.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { printable } from "../../lib/text/printable.ts";
import type { TestedServer } from "../../operate/suites/answers.ts";
import type { FindAdditions } from "../../operate/suites/run-tests.ts";
import { estimateCost, estimateWords } from "../../operate/suites/test-cost.ts";
import { writePersonaYaml } from "../../personas/file/persona-yaml.ts";
import type { PersonaContent } from "../../personas/file/schema.ts";
import { contentOf, type Persona } from "../../personas/persona.ts";
import { codeMarked } from "../../personas/review/code-mark.ts";
import type { FailOn } from "../../personas/review/fail-on.ts";
import { htmlOf } from "../../personas/review/html.ts";
import { markdownOf } from "../../personas/review/markdown.ts";
import { mustSee, mustSeeOfNew } from "../../personas/review/must-see.ts";
import { failuresOf, jsonOf, type PersonaReview, patchOf, type Report } from "../../personas/review/report.ts";
import { reportUpload } from "../../personas/review/report-upload.ts";
import { type ServerOptions, serverOf } from "../chat/server.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { withLocalServer } from "../local-server.ts";
import { printJson } from "../print/print-json.ts";
import { type Base, baseOf, writeTree } from "./git-tree.ts";
import { withAdditions } from "./knowledge.ts";
import { askServer } from "./preview.ts";
import { Requests } from "./review/requests.ts";
import {
  knowledgeChanges,
  type Pair,
  pairsOf,
  readSide,
  type Side,
  sharedChanges,
  testsDiffer,
} from "./review/sides.ts";
import { type AskedSide, type Planning, planSide, reviewTests } from "./review/tests.ts";

type ReportOptions = ServerOptions & {
  readonly against: string;
  readonly live?: boolean;
  readonly failOn?: FailOn;
  /** True: on stdout. */
  readonly json?: string | true;
  readonly html?: string;
  readonly yes?: boolean;
  /** Uploads it to a server under this label. */
  readonly label?: string;
};

/** Above so many dollars a person at the terminal is asked before anything is sent. */
const askAboveDollars = 1;
const errorCode: ExitCode = 2;

/** @param patterns ids of personas, or globs over them; none: all */
export function reportPersonas(
  context: Context,
  patterns: readonly string[],
  options: ReportOptions,
): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { folder } = config.personas;
      if (options.label === undefined && (options.url !== undefined || options.key !== undefined))
        throw new UsageError("Say by --label under which name the server keeps the report, such as pr-12.");
      if (!context.io.isFolder(folder)) throw new CommandError(`There is no folder of personas at ${folder}.`);
      const base = baseOf(folder, options.against);
      const place = mkdtempSync(join(tmpdir(), "troupe-report-"));
      try {
        const into = join(realpathSync(place), "personas");
        mkdirSync(into);
        const shownAs = `${relative(context.io.cwd, folder)}/`;
        const isThere = await writeTree(folder, base.commit, into);
        const wants = (id: string) => patterns.length === 0 || patterns.some((pattern) => globMatches(pattern, id));
        const review = new Review(context, config, options, base, {
          before: await readSide(into, shownAs, wants),
          after: await readSide(realpathSync(folder), shownAs, wants),
          wants,
        });
        const report = await review.run(isThere);
        if (typeof report === "number") return report;
        const ended = write(context, options, report);
        if (options.label !== undefined) await upload(context, config, options.label, options, report);
        return ended;
      } finally {
        rmSync(place, { recursive: true, force: true });
      }
    },
    { keyless: options.live !== true },
  );
}

type Sides = { readonly before: Side; readonly after: Side; readonly wants: (id: string) => boolean };
type Servers = { readonly before: TestedServer; readonly after: TestedServer };
type Finders = { readonly before: FindAdditions; readonly after: FindAdditions };
type Candidate = Pair & { readonly knowledge: PersonaReview["knowledge"] };

class Review {
  readonly #context: Context;
  readonly #config: Config;
  readonly #options: ReportOptions;
  readonly #base: Base;
  readonly #sides: Sides;
  readonly #requests: Requests;
  readonly #faults = { before: [] as string[], after: [] as string[] };
  /** What is asked of each side, where it was estimated before. */
  readonly #plans = { before: new Map<Persona, Planning>(), after: new Map<Persona, Planning>() };

  constructor(context: Context, config: Config, options: ReportOptions, base: Base, sides: Sides) {
    this.#context = context;
    this.#config = config;
    this.#options = options;
    this.#base = base;
    this.#sides = sides;
    this.#requests = new Requests(config);
    this.#faults.before.push(...sides.before.faults);
    this.#faults.after.push(...sides.after.faults);
  }

  /** @param isThere whether the commit has the folder @returns the exit code of what ended it */
  async run(isThere: boolean): Promise<Report | ExitCode> {
    const { before, after, wants } = this.#sides;
    const pairs = pairsOf(before, after).filter(({ id, from = id }) => wants(id) || wants(from));
    const candidates = pairs.flatMap((pair) => this.#candidate(pair));
    const { live } = this.#options;
    const personas = await this.#withFinders(candidates, async (find) => {
      if (live !== true || candidates.length === 0) return this.#reviewAll(candidates, find, undefined);
      await this.#confirm(candidates, find);
      let reviews: PersonaReview[] = [];
      const ended = await this.#withServers(async (servers) => {
        reviews = await this.#reviewAll(candidates, find, servers);
        return 0;
      });
      return ended === 0 ? reviews : ended;
    });
    if (typeof personas === "number") return personas;
    const isOld = (fault: string) => this.#faults.before.includes(fault);
    const old = this.#faults.after.filter(isOld);
    const { ref, commit } = this.#base;
    return {
      against: this.#base,
      isLive: live === true,
      notes: [
        ...(isThere
          ? []
          : [`There is no such folder at \`${printable(ref)}\` (\`${commit.slice(0, 12)}\`): every persona is new.`]),
        ...(old.length > 0 ? [`On both sides there are faults, such as ${codeMarked(old[0]!)}.`] : []),
      ],
      faults: {
        before: this.#faults.before.filter((fault) => !this.#faults.after.includes(fault)),
        after: this.#faults.after.filter((fault) => !isOld(fault)),
      },
      shared: sharedChanges(before, after, wants),
      labels: labelChanges(before.labels, after.labels).filter(({ label }) => wants(label.split("@")[0]!)),
      personas,
      unchanged: pairs.length - personas.length,
    };
  }

  /** @returns nothing where neither the persona, nor what it knows, nor its tests are others */
  #candidate(pair: Pair): Candidate[] {
    const { before: old, after: now } = pair;
    const { before, after } = this.#sides;
    const knowledge = knowledgeChanges(pair, before, after);
    const isSame =
      old !== undefined &&
      now !== undefined &&
      pair.from === undefined &&
      old.version === now.version &&
      Bun.deepEquals(old.promptIds, now.promptIds) &&
      knowledge.length === 0 &&
      !testsDiffer(pair, before, after);
    return isSame ? [] : [{ ...pair, knowledge }];
  }

  #withFinders<T>(pairs: readonly Pair[], use: (find: Finders) => Promise<T>): Promise<T> {
    const { before, after } = this.#sides;
    const old = pairs.flatMap((pair) => pair.before ?? []);
    const now = pairs.flatMap((pair) => pair.after ?? []);
    return withAdditions(before.folder, old, (one) =>
      withAdditions(after.folder, now, (other) => use({ before: one, after: other })),
    );
  }

  #withServers(use: (servers: Servers) => Promise<ExitCode>): Promise<ExitCode> {
    const personas = ({ variants: _, ...persona }: Persona): Persona => persona;
    const old: Config = { ...this.#config, personas: { folder: this.#sides.before.folder, isNamed: true } };
    return withLocalServer(
      this.#context,
      old,
      (before) => withLocalServer(this.#context, this.#config, (after) => use({ before, after }), { personas }),
      { personas },
    );
  }

  async #confirm(candidates: readonly Candidate[], find: Finders): Promise<void> {
    const { io } = this.#context;
    const { before, after } = this.#sides;
    const planned = [];
    for (const pair of candidates)
      for (const [asked, persona] of [
        [{ side: before, find: find.before, plans: this.#plans.before }, pair.before],
        [{ side: after, find: find.after, plans: this.#plans.after }, pair.after],
      ] as const)
        planned.push(...((await planSide(asked, persona))?.planned ?? []));
    const askable = planned.filter(({ problem }) => problem === undefined);
    const tests = askable.map(({ prepared, test }) => ({
      prepared,
      models: prepared.persona.targets,
      times: test.repeat,
    }));
    const estimate = estimateCost(tests, this.#config);
    io.stderr.write(`${estimateWords(estimate)}\n`);
    if (this.#options.yes || io.confirm === undefined || estimate.most <= askAboveDollars) return;
    if (!(await io.confirm("Go on?"))) throw new CommandError("Nothing was asked.");
  }

  async #reviewAll(
    candidates: readonly Candidate[],
    find: Finders,
    servers: Servers | undefined,
  ): Promise<PersonaReview[]> {
    const plans = servers && this.#plans;
    const before: AskedSide = {
      side: this.#sides.before,
      find: find.before,
      server: servers?.before,
      plans: plans?.before,
    };
    const after: AskedSide = { side: this.#sides.after, find: find.after, server: servers?.after, plans: plans?.after };
    const reviews: PersonaReview[] = [];
    for (const candidate of candidates) {
      const review = await this.#review(candidate, before, after);
      if (review.change !== "same" || review.knowledge.length + review.tests.length + review.mustSee.length > 0)
        reviews.push(review);
    }
    return reviews;
  }

  async #review(candidate: Candidate, before: AskedSide, after: AskedSide): Promise<PersonaReview> {
    const { id, from, before: old, after: now, knowledge } = candidate;
    const tests = await reviewTests(before, after, candidate);
    this.#faults.before.push(...tests.faults.before);
    this.#faults.after.push(...tests.faults.after);
    const texts = [old, now].map((one) => (one === undefined ? "" : writePersonaYaml(contentIn(one))));
    const isOther = old?.version !== now?.version;
    const change = changeOf(candidate, this.#sides.before.paths.has(id));
    return {
      id,
      change,
      ...(from !== undefined && { from }),
      ...(old && { before: { version: old.version } }),
      ...(now && { after: { version: now.version } }),
      mustSee: this.#mustSee(candidate),
      patch: isOther ? patchOf(texts[0]!, texts[1]!) : "",
      knowledge,
      ...(await this.#requests.review(old, now)),
      tests: tests.tests,
      sameTests: tests.same,
      totals: tests.totals,
    };
  }

  #mustSee({ id, from, before: old, after: now, knowledge }: Candidate): string[] {
    const said: string[] = [];
    const { paths } = this.#sides.before;
    if (now === undefined) said.push("is gone: calls that name it get 404");
    else if (from !== undefined) said.push(`was \`${from}\` before: calls that name that get 404`);
    else if (old === undefined && paths.has(id)) said.push("can't be compared: its file could not be read before");
    else if (old === undefined) said.push(...mustSeeOfNew(contentIn(now)));
    if (old !== undefined && now !== undefined) {
      said.push(...mustSee(contentIn(old), contentIn(now)));
      if (!Bun.deepEquals(old.promptIds, now.promptIds))
        said.push("answers other prompts of applications (`prompt_ids`)");
    }
    const of = (change: string) => knowledge.filter((one) => one.change === change).map(({ file }) => codeMarked(file));
    const [come, gone, other] = [of("new"), of("gone"), of("changed")];
    if (now !== undefined && old !== undefined) {
      if (come.length > 0) said.push(`knows new files: ${few(come)}`);
      if (gone.length > 0) said.push(`knows no more: ${few(gone)}`);
      if (other.length > 0) said.push(`knows files with other texts: ${few(other)}`);
    }
    return said;
  }
}

/** @param wasThere whether its file was there before, be it with faults */
function changeOf({ before, after, from }: Pair, wasThere: boolean): PersonaReview["change"] {
  if (after === undefined) return "gone";
  if (from !== undefined) return "renamed";
  if (before === undefined) return wasThere ? "changed" : "new";
  return before.version === after.version ? "same" : "changed";
}

const contentIn = (persona: Persona) => JSON.parse(contentOf(persona)) as PersonaContent;

function labelChanges(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Report["labels"] {
  const labels = [...new Set([...before.keys(), ...after.keys()])].sort();
  return labels.flatMap((label) => {
    const [old, now] = [before.get(label), after.get(label)];
    if (old === now) return [];
    return [{ label, ...(old !== undefined && { before: old }), ...(now !== undefined && { after: now }) }];
  });
}

function write({ io }: Context, { json, html, failOn }: ReportOptions, report: Report): ExitCode {
  const save = (file: string, text: string) => {
    try {
      writeFileSync(resolve(io.cwd, file), text);
    } catch (error) {
      throw new CommandError(`${printable(file)} can't be written: ${(error as Error).message}`);
    }
  };
  if (html !== undefined) save(html, htmlOf(report));
  if (typeof json === "string") save(json, `${JSON.stringify(jsonOf(report), null, 2)}\n`);
  if (json === true) printJson(io, jsonOf(report));
  else io.stdout.write(printable(markdownOf(report)));
  if (failOn === undefined) return 0;
  const { said, isError } = failuresOf(report, failOn);
  for (const one of said) io.stderr.write(`${one}\n`);
  return said.length === 0 ? 0 : isError ? errorCode : 1;
}

/** Last of all, so that what was asked for here is there whatever the server says. */
async function upload(context: Context, config: Config, label: string, server: ServerOptions, report: Report) {
  const path = `/v1/previews/${encodeURIComponent(label)}/report`;
  const kept = await askServer(await serverOf(context, config, server), "PUT", path, reportUpload(report));
  context.io.stderr.write(`The console shows it as '${label}' until ${kept["ends_at"]}.\n`);
}
