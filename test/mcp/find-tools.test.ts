/** `find_tools` over the lists of published servers, as their makers wrote them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { systemClock } from "../../src/lib/time/clock.ts";
import { findTools } from "../../src/mcp/find-tools.ts";
import { GrantedTool, grantedTools } from "../../src/mcp/grants.ts";
import { McpServer } from "../../src/mcp/server.ts";
import { McpServers } from "../../src/mcp/servers.ts";
import type { McpTool } from "../../src/mcp/tool.ts";
import { stemOf, stemsIn } from "../../src/mcp/words.ts";
import { mcpServer } from "../helpers/mcp.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const packages = `${import.meta.dir}/../../node_modules/@modelcontextprotocol`;
const program = (name: string, ...args: string[]) => [`${packages}/server-${name}/dist/index.js`, ...args];
const published: Readonly<Record<string, readonly string[]>> = {
  everything: program("everything", "stdio"),
  files: program("filesystem", import.meta.dir),
  memory: program("memory"),
  gitlab: program("gitlab"),
  maps: program("google-maps"),
  slack: program("slack"),
};
const env = {
  GITLAB_PERSONAL_ACCESS_TOKEN: "none",
  GOOGLE_MAPS_API_KEY: "none",
  SLACK_BOT_TOKEN: "none",
  SLACK_TEAM_ID: "none",
};

const tools = (server: string, listed: Readonly<Record<string, readonly string[]>>): GrantedTool[] => {
  const config = {
    clock: systemClock,
    log: silentLogger,
    version: "0",
    open: () => Promise.reject(new Error("never")),
  };
  const of = new McpServer(server, mcpServer({ command: "x" }), config);
  return Object.entries(listed).map(([name, [description, ...names]]) => {
    const properties = Object.fromEntries(names.map((one) => [one, { type: "string" }]));
    const tool: McpTool = { name, description, inputSchema: { type: "object", properties } };
    return new GrantedTool(`${server}__${name}`, of, { server }, tool);
  });
};

const inRepository = ["owner", "repo", "page", "per_page"];
const ofPull = ["owner", "repo", "pull_number"];

/** The tools of three more published servers by their names and arguments; the descriptions are ours. */
const byHand = [
  ...tools("github", {
    create_or_update_file: [
      "Writes one file to GitHub",
      "owner",
      "repo",
      "path",
      "content",
      "message",
      "branch",
      "sha",
    ],
    search_repositories: ["Looks for repositories", "query", "page", "perPage"],
    create_repository: ["Makes a repository for the account", "name", "description", "private", "autoInit"],
    get_file_contents: ["What a file or folder on GitHub holds", "owner", "repo", "path", "branch"],
    push_files: ["Writes several files in one commit", "owner", "repo", "branch", "files", "message"],
    create_issue: ["Opens an issue on GitHub", "owner", "repo", "title", "body", "assignees", "milestone", "labels"],
    create_pull_request: ["Proposes a branch for merging", "owner", "repo", "title", "body", "head", "base", "draft"],
    fork_repository: ["Copies a repository to an account", "owner", "repo", "organization"],
    create_branch: ["Makes a branch on GitHub", "owner", "repo", "branch", "from_branch"],
    list_commits: ["The commits of a branch", "owner", "repo", "sha", "page", "perPage"],
    list_issues: ["The issues, filtered", ...inRepository, "direction", "labels", "since"],
    update_issue: ["Changes an issue", "owner", "repo", "issue_number", "title", "body", "state"],
    add_issue_comment: ["Comments on an issue", "owner", "repo", "issue_number", "body"],
    search_code: ["Looks for code in all of GitHub", "q", "order", "page", "per_page"],
    search_issues: ["Looks for issues and pull requests in all of GitHub", "q", "order", "page", "per_page", "sort"],
    search_users: ["Looks for accounts", "q", "order", "page", "per_page", "sort"],
    get_issue: ["One issue", "owner", "repo", "issue_number"],
    get_pull_request: ["One pull request", ...ofPull],
    list_pull_requests: ["The pull requests, filtered", ...inRepository, "state", "head", "base", "sort", "direction"],
    create_pull_request_review: ["Judges a pull request", ...ofPull, "commit_id", "body", "event", "comments"],
    merge_pull_request: ["Merges one", ...ofPull, "commit_title", "commit_message", "merge_method"],
    get_pull_request_files: ["What it changes", ...ofPull],
    get_pull_request_status: ["The state of all its checks", ...ofPull],
    update_pull_request_branch: ["Brings it up to its base", ...ofPull, "expected_head_sha"],
    get_pull_request_comments: ["What was said of its lines", ...ofPull],
    get_pull_request_reviews: ["How it was judged", ...ofPull],
  }),
  ...tools("time", {
    get_current_time: ["The current time somewhere", "timezone"],
    convert_time: ["The time elsewhere", "source_timezone", "time", "target_timezone"],
  }),
  ...tools("git", {
    git_status: ["State of the working tree", "repo_path"],
    git_diff_unstaged: ["Changes that are not staged", "repo_path", "context_lines"],
    git_diff_staged: ["Changes that are staged", "repo_path", "context_lines"],
    git_diff: ["Differences of branches or commits", "repo_path", "target", "context_lines"],
    git_commit: ["Records changes", "repo_path", "message"],
    git_add: ["Stages files", "repo_path", "files"],
    git_reset: ["Takes back all that is staged", "repo_path"],
    git_log: ["The commits", "repo_path", "max_count", "start_timestamp", "end_timestamp"],
    git_create_branch: ["Makes a branch", "repo_path", "branch_name", "base_branch"],
    git_checkout: ["Switches branches", "repo_path", "branch_name"],
    git_show: ["What a commit holds", "repo_path", "revision"],
    git_branch: ["The branches", "repo_path", "branch_type", "contains"],
  }),
];

/** Of plain requests the tools that do as asked. */
const requests: readonly (readonly [string, ...string[]])[] = [
  ["what time is it in Paris", "time__get_current_time"],
  ["convert 3pm Berlin time to Tokyo", "time__convert_time"],
  ["show the uncommitted changes", "git__git_diff_unstaged", "git__git_status"],
  ["switch to another branch", "git__git_checkout"],
  ["when was this line of the file last changed", "git__git_log", "github__list_commits"],
  ["throw away my staged changes", "git__git_reset"],
  ["add two numbers", "everything__get-sum"],
  ["print my environment variables", "everything__get-env"],
  ["what's in this folder", "files__list_directory", "files__directory_tree"],
  ["rename notes.txt to old.txt", "files__move_file"],
  ["how big is that file", "files__get_file_info", "files__list_directory_with_sizes"],
  ["replace a line in a file", "files__edit_file"],
  ["remember that Anna works at Acme", "memory__create_entities", "memory__add_observations"],
  ["forget everything about Bob", "memory__delete_entities", "memory__delete_observations"],
  ["open a bug report", "github__create_issue", "gitlab__create_issue"],
  ["list open pull requests", "github__list_pull_requests"],
  ["merge the PR", "github__merge_pull_request"],
  ["did the checks of the pull request pass", "github__get_pull_request_status"],
  ["fork this repo", "github__fork_repository", "gitlab__fork_repository"],
  ["create a merge request", "gitlab__create_merge_request"],
  ["find users named torvalds", "github__search_users"],
  ["how do I get from Munich to Berlin", "maps__maps_directions"],
  ["how far is it from London to Oxford", "maps__maps_distance_matrix"],
  ["find restaurants near me", "maps__maps_search_places"],
  ["what is the altitude of this mountain", "maps__maps_elevation"],
  ["post a message to the team channel", "slack__slack_post_message"],
  ["answer in the thread", "slack__slack_reply_to_thread"],
  ["react with a thumbs up", "slack__slack_add_reaction"],
  ["what was said in the channel lately", "slack__slack_get_channel_history"],
  ["who is in our workspace", "slack__slack_get_users"],
];

describe.skipIf(!Object.values(published).every(([script]) => existsSync(script!)))("over published lists", () => {
  let servers: McpServers;
  let all: readonly GrantedTool[];
  beforeAll(async () => {
    servers = new McpServers({ clock: systemClock, log: silentLogger, version: "0" });
    const configured = Object.entries(published).map(
      ([name, args]) => [name, mcpServer({ command: process.execPath, args, env })] as const,
    );
    servers.configure(Object.fromEntries(configured));
    servers.start();
    const grants = Object.keys(published).map((server) => ({ server }));
    all = [...(await grantedTools(servers, grants, { tier: "free", tags: [] }, [])), ...byHand];
  });
  afterAll(() => servers.close());

  test("the wanted tool is found for 28 of 30 plain requests", () => {
    expect(all.length).toBeGreaterThanOrEqual(97);
    const time = findTools(all, "what time is it in Paris").map(({ name }) => name);
    expect(time.slice(0, 2).toSorted()).toEqual(["time__convert_time", "time__get_current_time"]);
    const missed = requests.filter(
      ([request, ...wanted]) => !findTools(all, request).some(({ name }) => wanted.includes(name)),
    );
    expect(requests).toHaveLength(30);
    expect(missed.length, missed.join("\n")).toBeLessThanOrEqual(2);
  });
});

const found = (listed: readonly GrantedTool[], query: string) =>
  findTools(listed, query).map(({ tool: { name } }) => name);

test("whole words count, not what stands within others", () => {
  const listed = tools("s", { list_commits: ["Lists them"], split_items: ["Cuts them"], fix_it: ["Mends it"] });
  expect(found(listed, "it")).toEqual([]);
  expect(found(listed, "commit")).toEqual(["list_commits"]);
  expect(found(listed, "mit")).toEqual([]);
});

test("arguments count, and rare words more than common ones", () => {
  const common = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`get_item_${at}`, ["Gets an item", "id"]]));
  const listed = tools("s", { ...common, export: ["Writes all of them", "format", "invoice_number"] });
  expect(found(listed, "get the item with this invoice number")[0]).toBe("export");
});

test("a long description has no more weight for its length", () => {
  const listed = tools("s", {
    everything: [`Does much. ${"alpha beta gamma delta deploy rollback ".repeat(200)}`],
    deploy: ["Deploys"],
  });
  expect(found(listed, "deploy")[0]).toBe("deploy");
});

test("a query of any length, and in any script, is read", () => {
  const listed = tools("s", { wetter: ["Sagt das Wetter für Städte voraus"], 天気: ["東京"] });
  expect(found(listed, "Städte")).toEqual(["wetter"]);
  expect(found(listed, "天気")).toEqual(["天気"]);
  expect(found(listed, `${"zzz ".repeat(1_000_000)}`)).toEqual([]);
});

const forms: readonly (readonly string[])[] = [
  ["issue", "issues"],
  ["copy", "copies", "copied", "copying"],
  ["branch", "branches"],
  ["stop", "stopped", "stopping"],
  ["delete", "deleted", "deletes", "deleting", "deletion"],
  ["file", "files"],
  ["address", "addresses"],
];

test.each(forms.map((words) => [words]))("%j have one stem", (words) => {
  expect(new Set(words.map(stemOf)).size).toBe(1);
});

test("words that mean something else stay apart", () => {
  const words = ["status", "state", "time", "timer", "note", "notify", "use", "user", "is", "issue", "add", "address"];
  expect(new Set(words.map(stemOf)).size).toBeGreaterThanOrEqual(words.length - 2);
  expect(stemsIn("listIssues of GitHub's HTTPServer, isn't it?")).toEqual(
    ["listissues", "list", "issues", "github", "git", "hub", "httpserver", "http", "server", "isn"].map(stemOf),
  );
});
