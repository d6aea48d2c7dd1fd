/** `troupe personas report`, by pull requests in a real git repository: what a careful reviewer would find, and nothing else. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { untilEnd } from "../../../helpers/served.ts";
import { TempFolder } from "../../../helpers/temp-folder.ts";
import { Console } from "../../console.ts";
import { names, Repository } from "./workplace.ts";

type Report = {
  shared: { personas: string[] }[];
  labels: { label: string }[];
  faults: { after: string[] };
  personas: { id: string }[];
};

const support = "personas/acme/support.yaml";
const recorded = "personas/acme/support.test.recorded.yaml";
const tests = "personas/acme/support.test.yaml";

const main = untilEnd(await Repository.begin());

/** What the comment says must be seen, without its marks. */
const seenIn = (markdown: string): string[] => {
  const [, part = ""] = markdown.split("#### What a reviewer must see\n\n");
  return part
    .split("\n\n")[0]!
    .split("\n")
    .filter((line) => line.startsWith("- "))
    .map((line) => line.slice(2).replaceAll("**", ""));
};
/** The personas that it has a section of. */
const sectionsIn = (markdown: string): string[] => [...markdown.matchAll(/^#### (\w+\/\w+)$/gm)].map((one) => one[1]!);
const titleIn = (markdown: string) => /^### (.*)$/m.exec(markdown)![1];

type PullRequest = {
  readonly name: string;
  readonly change: (repo: Repository) => void | Promise<void>;
  readonly title: string;
  readonly sees: readonly string[];
  readonly sections: readonly string[];
  /** Pieces of the comment. */
  readonly says?: readonly string[];
};

const unrecorded = "acme/support has 2 tests whose recordings are missing or older than this change: record anew";

const pullRequests: readonly PullRequest[] = [
  {
    name: "a word, with its answers recorded anew",
    async change(repo) {
      repo.replace(support, "polite", "kind");
      repo.write(recorded, repo.read(recorded).replaceAll("Be polite.", "Be kind.").replaceAll("polite. ", "kind. "));
    },
    title: "Personas: 1 changed; 1 test fails",
    sees: ["acme/support fails 1 test that it passed before: `greets`"],
    sections: ["acme/support"],
    says: [
      "-  Be polite.\n+  Be kind.",
      '`messages[0].content line 2: "Be polite." → "Be kind."`',
      '- pass → fail: `greets`: `contains: does not contain "polite"`',
      "<td><code>polite. hello</code></td><td><code>kind. hello</code></td>",
      "- pass → pass: `names the product`",
      "tests passed 2 of 2 → 1 of 2 · an answer $0.0012 · median",
    ],
  },
  {
    name: "a variable",
    change(repo) {
      repo.replace(support, "{product: {default: kettles}}", "{product: {default: kettles}, tone: {required: true}}");
      repo.replace(support, "Be polite", "Be {{tone}} and polite");
    },
    title: "Personas: 1 changed",
    sees: [
      "acme/support refuses calls without `tone`, which is required now",
      "acme/support has 2 tests that can't be judged",
    ],
    sections: ["acme/support"],
  },
  {
    name: "a tool, and a wider list of those that are called here",
    change(repo) {
      repo.replace(support, "allow: [find_*]", "allow: [find_*, find_order, cancel_order]");
      repo.replace(support, "limits:", "tools: [{type: function, function: {name: refund}}]\nlimits:");
    },
    title: "Personas: 1 changed",
    sees: [
      "acme/support has new tools: `refund`",
      "acme/support may call more at the MCP server `orders`: `cancel_order`",
      unrecorded,
    ],
    sections: ["acme/support"],
  },
  {
    name: "knowledge",
    change(repo) {
      repo.replace("personas/acme/handbook/refunds.md", "14 days", "30 days");
      repo.write("personas/acme/handbook/prices.md", "# Prices\n\nA kettle costs $20.\n");
    },
    title: "Personas: 1 with other tests or knowledge",
    sees: [
      "acme/clerk knows new files: `handbook/prices.md`",
      "acme/clerk knows files with other texts: `handbook/refunds.md`",
    ],
    sections: ["acme/clerk"],
    says: ["-A refund takes 14 days.\n+A refund takes 30 days.", "its own content is the same"],
  },
  {
    name: "a partial that nine personas use",
    change: (repo) => repo.replace("personas/_shared/tone.md", "short", "long"),
    title: "Personas: 9 changed",
    sees: [],
    sections: names.map((name) => `team/${name}`),
    says: [
      `- \`_shared/tone.md\`, in 9 personas: ${names.map((name) => `team/${name}`).join(", ")}`,
      "-  Write short sentences.\n+  Write long sentences.",
      "The same lines change as in **team/ads**.",
    ],
  },
  {
    name: "a dearer model",
    change: (repo) => repo.replace(support, "openai/gpt-5.4-mini, ", "openai/gpt-5.5, "),
    title: "Personas: 1 changed",
    sees: [
      "acme/support asks another model first: `openai/gpt-5.4-mini` → `openai/gpt-5.5`",
      expect.stringMatching(
        /^acme\/support may cost more: a plain call \$0\.0\d+ → \$0\.0\d+ at most \(\+\d+ %\)$/,
      ) as unknown as string,
      unrecorded,
    ],
    sections: ["acme/support"],
    says: ["- `openai/gpt-5.5` is asked now\n", "- `openai/gpt-5.4-mini` is asked no more\n"],
  },
  {
    name: "a broken test",
    change: (repo) => repo.replace(tests, "type: contains, value: polite", "type: containz, value: polite"),
    title: "Personas: 1 fault in files",
    sees: [],
    sections: [],
    says: [
      "#### Files that can't be read\n\n- `personas/acme/support.test.yaml:5:21: tests[0].assert[0].type: 'containz' is no assertion; did you mean 'contains'?`",
    ],
  },
  {
    name: "a test that fails",
    change: (repo) => repo.replace(tests, "value: what is it}", "value: a pot}"),
    title: "Personas: 1 with other tests or knowledge; 1 test fails",
    sees: ["acme/support fails 1 test that it passed before: `names the product`"],
    sections: ["acme/support"],
    says: ["<th>answer to the old test</th><th>answer to the new test</th>", "(the test itself is changed)"],
  },
  {
    name: "a file that is moved, and comments",
    change(repo) {
      repo.move("personas/team/ads.yaml", "personas/team/ads.yml");
      repo.move("personas/_shared/tone.md", "personas/_shared/voice.md");
      for (const name of names) {
        const file = `personas/team/${name}.${name === "ads" ? "yml" : "yaml"}`;
        repo.replace(file, "_shared/tone", "_shared/voice");
      }
      repo.replace(support, "# Who answers the shop's customers.", "# A comment.");
      repo.write(tests, `# Another comment.\n${repo.read(tests)}`);
    },
    title: "Personas: nothing changes in what they do",
    sees: [],
    sections: [],
  },
  {
    name: "a persona that is renamed",
    change(repo) {
      for (const end of [".yaml", ".test.yaml", ".test.recorded.yaml"])
        repo.move(`personas/acme/support${end}`, `personas/acme/help${end}`);
    },
    title: "Personas: 1 renamed",
    sees: ["acme/help was `acme/support` before: calls that name that get 404"],
    sections: ["acme/help"],
  },
  {
    name: "a merge of two branches, the other one's work not said again",
    change(repo) {
      repo.replace(support, "Support.", "Support of the shop.");
      repo.commit("describe");
      repo.git("checkout", "-q", "main");
      repo.replace("personas/acme/clerk.yaml", "Answer from", "Answer only from");
      repo.commit("elsewhere");
      repo.git("checkout", "-q", "work");
      repo.git("merge", "-q", "--no-edit", "main");
    },
    title: "Personas: 1 changed",
    sees: [],
    sections: ["acme/support"],
    says: ["-description: Support.\n+description: Support of the shop."],
  },
  {
    name: "a branch that main has gone on from",
    change(repo) {
      repo.replace(support, "Support.", "Support of the shop.");
      repo.commit("describe");
      repo.git("checkout", "-q", "main");
      repo.remove("personas/acme/clerk.yaml");
      repo.commit("elsewhere");
      repo.git("checkout", "-q", "work");
    },
    title: "Personas: 1 changed",
    sees: [],
    sections: ["acme/support"],
    says: [", where this branch left it."],
  },
  {
    name: "a lost limit",
    change: (repo) => repo.replace(support, "limits: {max_tokens: 400}\n", ""),
    title: "Personas: 1 changed",
    sees: [
      "acme/support has lost a limit: `limits.max_tokens`, which was 400",
      expect.stringMatching(/^acme\/support may cost more: /) as unknown as string,
      unrecorded,
    ],
    sections: ["acme/support"],
    says: ["`max_completion_tokens is gone: 400`"],
  },
  {
    name: "a persona that comes, and one that goes",
    change(repo) {
      repo.remove("personas/team/ideas.yaml");
      repo.write(
        "personas/acme/new.yaml",
        "description: New.\nmodel: openai/gpt-5.4-mini\nsystem: Help.\nstore: true\n",
      );
    },
    title: "Personas: 1 new, 1 gone",
    sees: [
      "team/ideas is gone: calls that name it get 404",
      "acme/new is new, and asks `openai/gpt-5.4-mini`",
      "acme/new keeps conversations now (`store`)",
    ],
    sections: ["acme/new", "team/ideas"],
  },
  {
    name: "a new skill",
    change(repo) {
      repo.replace(support, "limits:", "skills: [skills/*]\nlimits:");
      repo.write(
        "personas/acme/skills/refunds/SKILL.md",
        "---\nname: refunds\ndescription: Pays back.\n---\nAsk why.\n",
      );
      repo.write("personas/acme/skills/refunds/scripts/pay.sh", "pay\n");
    },
    title: "Personas: 1 changed",
    sees: [
      "acme/support has a new skill `refunds`: `Pays back.`",
      "acme/support has programs in its skills, which are never run here: `refunds/scripts/pay.sh`",
      unrecorded,
    ],
    sections: ["acme/support"],
    says: ["body: Ask why.", "read_skill"],
  },
  {
    name: "a line and a tool between others, which are not said to be others",
    async change(repo) {
      const tool = (name: string) => `{type: function, function: {name: ${name}, parameters: {type: object}}}`;
      repo.replace(support, "limits:", `tools: [${tool("close")}, ${tool("open")}]\nlimits:`);
      repo.commit("tools");
      repo.git("branch", "-f", "main");
      repo.replace(support, "  Be polite.", "  Be quick.\n  Be polite.");
      repo.replace(support, tool("open"), `${tool("move")}, ${tool("open")}`);
    },
    title: "Personas: 1 changed",
    sees: ["acme/support has new tools: `move`", unrecorded],
    sections: ["acme/support"],
    says: ['content line 2 is new: "Be quick."`; `tools[1] is new: {'],
  },
  {
    name: "a label",
    change: (repo) => repo.write("personas/labels.yaml", 'acme/support: {stable: "0123456789ab"}\n'),
    title: "Personas: 1 label moved",
    sees: [],
    sections: [],
    says: ["#### Labels that moved\n\n- `acme/support@stable` none → 0123456789ab\n"],
  },
  {
    name: "nothing at all",
    change: (repo) => repo.write("README.md", "Hello\n"),
    title: "Personas: nothing changes in what they do",
    sees: [],
    sections: [],
    says: ["11 personas do what they did."],
  },
];

describe("personas report", () => {
  for (const { name, change, title, sees, sections, says = [] } of pullRequests)
    test(name, async () => {
      using repo = main.copy();
      repo.branch("work");
      await change(repo);
      repo.commit("work");
      const before = repo.git("status", "--porcelain", "--ignored");
      const { code, out, err } = await repo.shell.run("personas report --against main");
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect({ title: titleIn(out), sees: seenIn(out), sections: sectionsIn(out) }).toEqual({
        title,
        sees: [...sees],
        sections: [...sections],
      });
      for (const piece of says) expect(out).toContain(piece);
      expect(out.startsWith("<!-- troupe personas report -->\n")).toBe(true);
      expect(repo.git("status", "--porcelain", "--ignored")).toBe(before);
    });
});

describe("personas report, in its forms", () => {
  test("gives all of it as JSON and as one HTML file, and ends as --fail-on says", async () => {
    using repo = main.copy();
    repo.branch("work");
    repo.replace(support, "polite", "kind <b>");
    repo.write(
      recorded,
      repo.read(recorded).replaceAll("Be polite.", "Be kind <b>.").replaceAll("polite. ", "kind <b>. "),
    );
    const line = "personas report --against main --json report.json --html report.html --fail-on ";
    const failed = await repo.shell.run(`${line}regression,error`);
    expect({ code: failed.code, err: failed.err }).toEqual({
      code: 1,
      err: "acme/support: 1 test fails that did not before\n",
    });
    const report = JSON.parse(repo.read("report.json"));
    expect(report).toMatchObject({
      against: { ref: "main", is_fork_point: false },
      must_see: [{ id: "acme/support", words: "fails 1 test that it passed before: `greets`" }],
      unchanged: 10,
      personas: [
        {
          id: "acme/support",
          change: "changed",
          price: { before: expect.any(Number), after: expect.any(Number) },
          totals: { before: { tests: 2, passed: 2, cost: 0.0012 }, after: { tests: 2, passed: 1, failed: 1 } },
          tests: [
            {
              name: "greets",
              change: "same",
              before: { verdict: "pass", answer: "polite. hello" },
              after: { verdict: "fail", answer: "kind <b>. hello" },
            },
            { name: "names the product", after: { verdict: "pass" } },
          ],
        },
      ],
    });
    const html = repo.read("report.html");
    expect(html).toContain("<pre>kind &lt;b&gt;. hello</pre>");
    expect(html).not.toMatch(/<script|<link|src=|https?:/);
    expect((await repo.shell.run(`${line}cost+20%`)).code).toBe(0);
    expect((await repo.shell.run("personas report --against main --json")).out).toStartWith("{");
    // Recorded costs decide before prices do.
    repo.write(recorded, repo.read(recorded).replaceAll("cost: 0.0012", "cost: 0.0015"));
    const dearer = await repo.shell.run("personas report --against main --fail-on cost+20%,latency+50%");
    expect({ code: dearer.code, err: dearer.err }).toEqual({
      code: 1,
      err: "acme/support: cost +25 %, more than +20 %\n",
    });
    repo.replace(support, "kind <b>", "kind");
    const stale = await repo.shell.run("personas report --against main --fail-on error,regression");
    expect({ code: stale.code, err: stale.err }).toEqual({ code: 2, err: "2 tests could not be judged\n" });
    expect((await repo.shell.run("personas report --against main --fail-on speed")).code).toBe(2);
  });

  test("stays below a comment's bound, whatever answers and texts hold", async () => {
    using repo = main.copy();
    repo.branch("work");
    const long = "```\n\u0001@everyone #12 <img src=x> | \u202e".repeat(300);
    for (let number = 0; number < 400; number += 1)
      repo.write(
        `personas/many/p${number}.yaml`,
        `description: Many.\nmodel: openai/gpt-5.4-mini\nsystem: ${JSON.stringify(`${number}\n${long}`)}\n`,
      );
    repo.write(recorded, repo.read(recorded).replaceAll("content: polite. hello", `content: ${JSON.stringify(long)}`));
    const { out } = await repo.shell.run("personas report --against main");
    expect(Buffer.byteLength(out)).toBeLessThanOrEqual(60_000);
    expect(out).toContain("…and ");
    expect(out).toContain("<code>␁@everyone #12 &lt;img src=x&gt; | ");
    expect(out.match(/<details>/g)!.length).toBe(out.match(/<\/details>/g)!.length);
  });

  test("asks both sides of a live report, each by its own text", async () => {
    using repo = main.copy();
    repo.branch("work");
    repo.write("recording.yaml", main.read("recording.yaml"));
    repo.replace(support, "polite", "kind");
    const { code, out } = await repo.shell.run("--config recording.yaml personas report --against main --live --yes");
    expect(code).toBe(0);
    expect(out).toContain("<td><code>polite. hello</code></td><td><code>kind. hello</code></td>");
    expect(seenIn(out)).toEqual(["acme/support fails 1 test that it passed before: `greets`"]);
  });
});

describe("personas report, of what can't be compared", () => {
  const run = (repo: Repository, ref: string) => repo.shell.run(["personas", "report", "--against", ref]);
  const said = ({ code, err }: { code: number; err: string }) => ({ code, err });

  test("names a ref that is none, and one that was meant", async () => {
    using repo = main.copy();
    repo.git("update-ref", "refs/remotes/origin/next", "HEAD");
    expect(said(await run(repo, "next"))).toEqual({
      code: 1,
      err: "error: 'next' names no commit of this repository. Did you mean 'origin/next'?\n",
    });
    expect(said(await run(repo, "--upload-pack=x"))).toEqual({
      code: 1,
      err: "error: '--upload-pack=x' names no commit of this repository.\n",
    });
  });

  test("says that a clone is shallow, and what to do", async () => {
    using repo = main.copy();
    repo.branch("work");
    for (const subject of ["one", "two"]) repo.commit(subject);
    repo.git("checkout", "-q", "main");
    repo.commit("elsewhere");
    using folder = new TempFolder();
    const clone = folder.file("clone");
    const made = Bun.spawnSync([
      "git",
      "clone",
      "-q",
      "--depth",
      "1",
      "--no-single-branch",
      "-b",
      "work",
      `file://${repo.path}`,
      clone,
    ]);
    expect(made.exitCode).toBe(0);
    const shell = new Console(clone);
    const deeper =
      "This clone is shallow: fetch its whole history ('git fetch --unshallow', or 'fetch-depth: 0' in CI)";
    expect(said(await shell.run("personas report --against origin/main"))).toEqual({
      code: 1,
      err: `error: Where this branch left 'origin/main' is not known. ${deeper}.\n`,
    });
    expect(said(await shell.run("personas report --against v1"))).toEqual({
      code: 1,
      err: `error: 'v1' names no commit of this repository. ${deeper}, or fetch that branch.\n`,
    });
  });

  test("says that the folder is in no repository, or was not there", async () => {
    using repo = main.copy();
    repo.move("personas", "prompts");
    repo.commit("move");
    const { code, out } = await repo.shell.run("--personas prompts personas report --against HEAD~1");
    expect(code).toBe(0);
    expect(out).toMatch(/^> There is no such folder at `HEAD~1` \(`[0-9a-f]{12}`\): every persona is new\.$/m);
    expect(titleIn(out)).toBe("Personas: 11 new");
    expect(said(await run(repo, "HEAD"))).toEqual({
      code: 1,
      err: `error: There is no folder of personas at ${repo.path}/personas.\n`,
    });
    repo.remove(".git");
    expect(said(await repo.shell.run("--personas prompts personas report --against main"))).toEqual({
      code: 1,
      err: `error: ${repo.path}/prompts is in no git repository, so that there is no commit to compare with.\n`,
    });
  });

  test("is of the personas that are named, and so are partials, labels and faults", async () => {
    using repo = main.copy();
    repo.branch("work");
    repo.replace("personas/_shared/tone.md", "short", "long");
    repo.write("personas/labels.yaml", 'acme/support: {stable: "0123456789ab"}\nteam/ads: {stable: "0123456789ab"}\n');
    repo.replace("personas/acme/clerk.yaml", "model: ", "modell: ");
    repo.write("personas/team/lost.test.yaml", "tests: [{vars: {prompt: hi}}]\n");
    const of = async (...ids: string[]) => {
      const { code, out } = await repo.shell.run(["personas", "report", ...ids, "--against", "main", "--json"]);
      expect(code).toBe(0);
      const { shared, labels, faults, personas } = JSON.parse(out) as Report;
      return {
        shared: shared.map((one) => one.personas.length),
        labels: labels.map(({ label }) => label),
        faults: faults.after.map((fault) => fault.split(":")[0]),
        personas: personas.map(({ id }) => id),
      };
    };
    const [clerk, lost] = ["personas/acme/clerk.yaml", "personas/team/lost.test.yaml"];
    const all = await of();
    expect([all.shared, all.labels, [...new Set(all.faults)]]).toEqual([
      [9],
      ["acme/support@stable", "team/ads@stable"],
      [clerk, lost],
    ]);
    expect(await of("acme/support")).toEqual({ shared: [], labels: ["acme/support@stable"], faults: [], personas: [] });
    expect(await of("team/ads")).toEqual({
      ...{ shared: [], labels: ["team/ads@stable"], faults: [], personas: ["team/ads"] },
    });
    expect(await of("team/a*", "team/b*")).toMatchObject({ shared: [2], personas: ["team/ads", "team/blogs"] });
    expect([...new Set((await of("acme/*", "team/lost")).faults)]).toEqual([clerk, lost]);
  });

  test("names what can't be read on either side, at its place", async () => {
    using repo = main.copy();
    repo.replace(support, "model: [", "models: [");
    repo.replace("personas/acme/clerk.yaml", "model: ", "modell: ");
    repo.commit("broken");
    repo.branch("work");
    repo.replace(support, "models: [", "model: [");
    repo.replace("personas/team/ads.yaml", "model: ", "modell: ");
    repo.write("personas/team/lost.test.yaml", "tests: [{vars: {prompt: hi}}]\n");
    const { out } = await run(repo, "main");
    expect(titleIn(out)).toBe("Personas: 1 changed; 3 faults in files");
    expect(out).toContain(
      "> On both sides there are faults, such as `personas/acme/clerk.yaml:1:1: model: is required`.",
    );
    expect(out).toContain("- `personas/team/ads.yaml:2:1: modell: is not a known key; did you mean 'model'?`\n");
    expect(out).toContain("- `personas/team/lost.test.yaml: There is no persona team/lost beside these tests`\n");
    expect(out).toContain(
      "#### Files that could not be read before\n\n- `personas/acme/support.yaml:2:1: model: is required`",
    );
    expect(seenIn(out)).toEqual(["acme/support can't be compared: its file could not be read before"]);
    expect((await repo.shell.run("personas report --against main --fail-on error")).code).toBe(2);
  });

  test("writes nothing outside of its own folder, whatever a tree names", async () => {
    using repo = main.copy();
    const made = (input: string) =>
      Bun.spawnSync(["git", "-C", repo.path, "mktree"], { stdin: Buffer.from(input) })
        .stdout.toString()
        .trim();
    const file = repo.git("hash-object", "-w", "troupe.yaml");
    const inner = made(`100644 blob ${file}\tescaped.md\n`);
    const personas = made(`040000 tree ${inner}\t..\n`);
    const root = made(`040000 tree ${personas}\tpersonas\n`);
    const commit = repo.git("commit-tree", root, "-p", "HEAD", "-m", "out");
    repo.git("update-ref", "refs/heads/out", commit);
    repo.git("symbolic-ref", "HEAD", "refs/heads/out");
    expect(said(await run(repo, commit))).toEqual({
      code: 1,
      err: `error: At ${commit.slice(0, 12)} '../escaped.md' leads out of the folder.\n`,
    });
  });

  test("leaves nothing behind", async () => {
    const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith("troupe-report-"));
    const before = left();
    using repo = main.copy();
    await run(repo, "main");
    await run(repo, "nothing");
    expect(left()).toEqual(before);
    expect(existsSync(`${repo.path}/data`)).toBe(false);
  });
});
