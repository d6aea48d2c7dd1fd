/** The workflows of docs/persona-reviews.md, run as the scripts that they are, in a real repository with two branches and a remote. */
import { expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { listPreviews } from "../../src/operate/previews.ts";
import { findReport, listReports } from "../../src/operate/reports.ts";
import { Repository } from "../cli/personas/review/workplace.ts";
import { testExecutable } from "../helpers/executable.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const page = readFileSync("docs/persona-reviews.md", "utf8");
const block = (name: string) => parse(new RegExp(`^\`\`\`yaml\\n(# ${name}.*?)^\`\`\``, "ms").exec(page)![1]!);
const github = block("\\.github/workflows/personas\\.yaml") as Record<
  "jobs",
  Record<"record" | "review" | "preview", Job>
>;
const gitlab = block("\\.gitlab-ci\\.yml") as Record<"review" | "record" | "preview" | "drop", { script: string[] }>;
type Job = { steps: { run?: string }[] };

const support = "personas/acme/support.yaml";
const recorded = "personas/acme/support.test.recorded.yaml";
const mark = "<!-- troupe personas report -->";

/** A stand-in of GitHub's program: comments are files, the first of them somebody else's. */
const gh = `#!/bin/sh
case "$*" in
  "pr view 7 --json isCrossRepository --jq .isCrossRepository") echo false;;
  "pr view 7 --json baseRefName --jq .baseRefName") echo main;;
  "pr checkout 7") git checkout -q work;;
  "api repos/acme/shop/issues/7/comments --paginate --jq "*)
    jq '{id: .id, body: .body}' "$COMMENTS"/*.json 2>/dev/null | jq -r ". | select(.body | startswith(\\"${mark}\\")) | .id";;
  "api --silent repos/acme/shop/issues/7/comments -F body=@report.md")
    jq -Rs '{id: 12, body: .}' report.md > "$COMMENTS/12.json";;
  "api --silent -X PATCH repos/acme/shop/issues/comments/12 -F body=@report.md")
    jq -Rs '{id: 12, body: .}' report.md > "$COMMENTS/12.json"; echo patched >> "$COMMENTS/log";;
  *) echo "gh is not asked for: $*" >&2; exit 3;;
esac
`;

/** The file that starts a clone runs the sources, which takes five times as long. */
const executable = await testExecutable();

class Shop implements Disposable {
  readonly folder = new TempFolder();
  readonly origin: Repository;
  readonly repo: Repository;
  readonly comments = this.folder.file("comments");

  constructor(main: Repository) {
    this.origin = main.copy();
    this.origin.git("checkout", "-q", "--detach");
    this.repo = main.copy();
    this.repo.git("remote", "add", "origin", this.origin.path);
    this.repo.git("fetch", "-q", "origin");
    this.repo.branch("work");
    const recording = main.read("recording.yaml").replace("sk-0123456789", '"${OPENAI_API_KEY}"');
    this.repo.write("troupe.yaml", recording);
    this.repo.replace(support, "Be polite.", "Be polite, and never rude.");
    this.repo.commit("work");
    this.repo.git("push", "-q", "-u", "origin", "work");
    mkdirSync(`${this.repo.path}/.troupe/deploy`, { recursive: true });
    symlinkSync(executable, `${this.repo.path}/.troupe/deploy/troupe`);
    mkdirSync(this.comments);
    writeFileSync(`${this.comments}/11.json`, JSON.stringify({ id: 11, body: "Nice." }));
    writeFileSync(this.folder.file("gh"), gh);
    chmodSync(this.folder.file("gh"), 0o755);
  }

  async run(scripts: readonly string[], env: Record<string, string>): Promise<number[]> {
    const codes: number[] = [];
    for (const script of scripts) {
      const { OPENAI_API_KEY: _, ...rest } = Bun.env;
      const running = Bun.spawn(["bash", "-e", "-c", script], {
        cwd: this.repo.path,
        stdout: "ignore",
        stderr: "inherit",
        env: { ...rest, PATH: `${this.folder.path}:${Bun.env["PATH"]}`, COMMENTS: this.comments, ...env },
      });
      codes.push(await running.exited);
    }
    return codes;
  }

  [Symbol.dispose](): void {
    this.repo[Symbol.dispose]();
    this.origin[Symbol.dispose]();
    this.folder[Symbol.dispose]();
  }
}

const runsOf = ({ steps }: Job) => steps.flatMap(({ run }) => run ?? []);

test("the file that starts a clone, which they name, is the program", async () => {
  const started = Bun.spawn(["deploy/troupe", "version"], { stdout: "pipe" });
  expect(await new Response(started.stdout).text()).toStartWith("troupe ");
});

test("GitHub: a comment comes, and is brought up to date once the tests are recorded anew", async () => {
  using main = await Repository.begin();
  using shop = new Shop(main);
  const env = { PR: "7", GITHUB_REPOSITORY: "acme/shop", GITHUB_STEP_SUMMARY: shop.folder.file("summary") };
  const review = runsOf(github.jobs.review);
  expect(review).toHaveLength(4);
  // The recordings are those of the older text.
  expect(await shop.run(review, env)).toEqual([0, 2, 0, 0]);
  const comment = () => (JSON.parse(readFileSync(`${shop.comments}/12.json`, "utf8")) as { body: string }).body;
  expect(comment()).toContain("2 tests whose recordings are missing or older than this change");
  expect(existsSync(`${shop.comments}/log`)).toBe(false);
  const record = runsOf(github.jobs.record);
  expect(await shop.run(record, { ...env, OPENAI_API_KEY: "sk-0123456789" })).toEqual([0, 0, 0]);
  expect(shop.origin.git("show", `work:${recorded}`)).toContain("never rude");
  expect(await shop.run(review, env)).toEqual([0, 1, 0, 0]);
  expect(comment()).toContain("fails 1 test that it passed before: `greets`");
  expect(readFileSync(`${shop.comments}/log`, "utf8")).toBe("patched\n");
  expect(shop.repo.read("results.xml")).toContain('failures="1"');
  expect(readFileSync(env.GITHUB_STEP_SUMMARY, "utf8").startsWith(mark)).toBe(true);
});

test("GitLab: the same by its notes", async () => {
  using main = await Repository.begin();
  using shop = new Shop(main);
  const notes = new Map<string, string>([["11", "Nice."]]);
  using server = Bun.serve({
    port: 0,
    async fetch(request) {
      expect(request.headers.get("private-token")).toBe("glpat-1");
      const { pathname } = new URL(request.url);
      const [, id] = /^\/projects\/3\/merge_requests\/7\/notes(?:\/(\d+))?$/.exec(pathname)!;
      const body = async () => (await request.formData()).get("body") as string;
      if (request.method === "PUT") notes.set(id!, await body());
      if (request.method === "POST") notes.set("12", await body());
      return Response.json([...notes].map(([number, text]) => ({ id: Number(number), body: text })));
    },
  });
  const env = {
    CI_API_V4_URL: `http://127.0.0.1:${server.port}`,
    CI_PROJECT_ID: "3",
    CI_MERGE_REQUEST_IID: "7",
    CI_MERGE_REQUEST_TARGET_BRANCH_NAME: "main",
    PERSONAS_TOKEN: "glpat-1",
  };
  const [check, fetchBase, report, note, replay] = gitlab.review.script as [string, string, string, string, string];
  expect(await shop.run([check, fetchBase, report, note], env)).toEqual([0, 0, 0, 0]);
  expect(notes.get("12")).toContain("### Personas: 1 changed\n");
  const [record, add, commit] = gitlab.record.script as [string, string, string];
  expect(await shop.run([record, add, commit], { ...env, OPENAI_API_KEY: "sk-0123456789" })).toEqual([0, 0, 0]);
  expect(shop.repo.git("show", "--name-only", "--format=%s")).toBe(`personas: record the tests anew\n\n${recorded}`);
  expect(await shop.run([report, note, replay], env)).toEqual([0, 0, 1]);
  expect([...notes.keys()]).toEqual(["11", "12"]);
  expect(notes.get("12")).toContain("fails 1 test that it passed before: `greets`");
});

test("this repository's own personas are reviewed by the same steps", () => {
  const own = parse(readFileSync(".github/workflows/personas.yaml", "utf8")) as typeof github;
  for (const job of ["record", "review"] as const)
    expect(runsOf(own.jobs[job])).toEqual(runsOf(github.jobs[job]).map((run) => run.replaceAll(".troupe/", "")));
});

test("both push a preview of the branch with a key of previews, and end it", async () => {
  using main = await Repository.begin();
  using shop = new Shop(main);
  await using troupe = await Troupe.start({});
  const spec = { name: "ci", tier: "pro", perMinute: 1000, surfaces: ["preview"] } as const;
  const env = { PR: "7", CI_MERGE_REQUEST_IID: "7", TROUPE_URL: troupe.url, TROUPE_KEY: await troupe.createKey(spec) };
  const { services } = troupe.server;
  const labels = async () => (await listPreviews(services)).map(({ label }) => label);
  const [push, drop] = runsOf(github.jobs.preview);
  expect(await shop.run([push!, ...gitlab.preview.script], env)).toEqual([0, 0]);
  expect(await labels()).toEqual(["mr-7", "pr-7"]);
  const onGithub = { ...env, GITHUB_STEP_SUMMARY: shop.folder.file("summary") };
  expect(
    await shop.run([runsOf(github.jobs.review)[2]!, ...gitlab.review.script.slice(1, 3)], {
      ...onGithub,
      CI_MERGE_REQUEST_TARGET_BRANCH_NAME: "main",
    }),
  ).toEqual([0, 0, 0]);
  expect((await listReports(services, "acme/support")).map(({ label }) => label).toSorted()).toEqual(["mr-7", "pr-7"]);
  expect((await findReport(services, "acme/support", "mr-7")).persona.must_see).toEqual([
    "has 2 tests whose recordings are missing or older than this change: record anew",
  ]);
  expect(await shop.run([drop!, drop!, ...gitlab.drop.script], env)).toEqual([0, 0, 0]);
  expect(await labels()).toEqual([]);
});
