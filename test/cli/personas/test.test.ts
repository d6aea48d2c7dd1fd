import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { validateXML } from "xmllint-wasm";
import { completionOf } from "../../helpers/chat-upstream.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";
import { answer, type Body, keyOfProvider, persona, recorded, testFile, tests, usage, Workplace } from "./workplace.ts";

describe("personas test", () => {
  test("asks each persona through a server of its own, and says what it cost", async () => {
    using place = new Workplace({ [testFile]: tests });
    const { code, out, err } = await place.shell.run("personas test");
    expect({ code, out: out.replaceAll(/\d+ ms/g, "9 ms") }).toEqual({
      code: 0,
      out: [
        "acme/support",
        "  pass  names the parcel  9 ms, $0.0040",
        "  pass  is polite  9 ms, $0.0052",
        "",
        "2 passed; 2 tests, 2 answers, $0.0092",
        "",
      ].join("\n"),
    });
    expect(err).toMatch(/^3 calls, \$0\.\d+ at most\n1\/2 pass acme\/support: .*\n2\/2 pass acme\/support: .*\n$/);
    const asked = place.upstream.requests.map(({ json }) => json as Body).find(({ messages }) => messages.length === 2);
    expect(asked).toMatchObject({
      model: "gpt-5.4",
      messages: [
        { role: "system", content: "Help in German." },
        { role: "user", content: "where is my parcel?" },
      ],
      max_completion_tokens: 200,
    });
    expect(
      place.upstream.requests.every(({ headers }) => headers.get("authorization") === `Bearer ${keyOfProvider}`),
    ).toBe(true);
    expect(existsSync(place.folder.file("data"))).toBe(false);
  });

  test("tells what failed from what could not be judged, by its exit code too", async () => {
    const text = `prompts: "{{question}}"
tests:
  - {description: down, vars: {question: down}}
  - description: no grade
    vars: {question: grader off}
    assert: [{type: llm-rubric, value: x, provider: openai/gpt-5.4-mini}]
  - description: wrong
    vars: {question: hello}
    assert: [{type: equals, value: bye}]
`;
    using place = new Workplace({ [testFile]: text });
    const { code, out } = await place.shell.run("personas test");
    expect(code).toBe(1);
    expect(out.replaceAll(/\d+ ms/g, "9 ms")).toBe(
      [
        "acme/support",
        "  ERROR down",
        "        support.test.yaml:3: 400: The model does not accept this request as it is.",
        "  ERROR no grade  9 ms, $0.0040",
        "        support.test.yaml:6: llm-rubric: the grader openai/gpt-5.4-mini: 500: no graders today",
        "        answer: GRADER OFF by gpt-5.4",
        "  FAIL  wrong  9 ms, $0.0040",
        '        support.test.yaml:9: equals: is not "bye"',
        "        answer: HELLO by gpt-5.4",
        "",
        "0 passed, 1 failed, 2 errors; 3 tests, 2 answers, $0.0080",
        "",
      ].join("\n"),
    );
    expect((await place.shell.run(["personas", "test", "--filter", "down|grade"])).code).toBe(2);
  });

  test("asks again where an upstream is busy", async () => {
    let busy = 2;
    const text = "prompts: hi\ntests: [{assert: [{type: contains, value: HI}]}]\n";
    using place = new Workplace({ [testFile]: text }, (request) => {
      busy -= 1;
      return busy >= 0
        ? jsonResponse({ error: { message: "slow down" } }, 429, { "retry-after": "0" })
        : answer(request);
    });
    expect((await place.shell.run("personas test")).code).toBe(0);
    expect(place.upstream.requests).toHaveLength(3);
  });

  test("repeats tests, of which a share has to pass", async () => {
    let count = 0;
    const text = "prompts: hi\ntests: [{assert: [{type: equals, value: odd}], options: {repeat: 3}}]\n";
    const handler = () => {
      count += 1;
      return jsonResponse(completionOf({ content: count % 2 === 0 ? "even" : "odd" }));
    };
    using place = new Workplace({ [testFile]: text }, handler);
    const { code, out } = await place.shell.run("personas test --concurrency 1");
    expect(code).toBe(1);
    expect(out).toContain("  FAIL  test 1  2 of 3 passed\n");
    count = 0;
    expect((await place.shell.run("personas test --concurrency 1 --threshold 0.6")).code).toBe(0);
    count = 0;
    expect((await place.shell.run("personas test --concurrency 1 --repeat 1")).code).toBe(0);
  });

  test("asks a person before it spends more than a dollar", async () => {
    using place = new Workplace({ [testFile]: tests });
    place.shell.answers = [false];
    const line = "personas test --repeat 50";
    const { code, err } = await place.shell.run(line);
    expect({ code, asked: place.shell.asked }).toEqual({ code: 1, asked: "Go on?" });
    expect(err).toMatch(/^150 calls, \$\d+\.\d\d at most\nerror: Nothing was asked\.\n$/);
    expect(place.upstream.requests).toHaveLength(0);
    place.shell.answers = [];
    expect((await place.shell.run(`${line} --yes`)).code).toBe(0);
  });

  test("asks nothing of a file with a fault, and says where it is", async () => {
    using place = new Workplace({ [testFile]: "prompts: hi\ntests:\n- assert: [{type: contians, value: x}]\n" });
    const at = `${place.folder.file(testFile)}:3:19: tests[0].assert[0].type: 'contians' is no assertion`;
    const { code, err } = await place.shell.run("personas test");
    expect(code).toBe(2);
    expect(err).toStartWith(at);
    expect((await place.shell.run("personas check")).err).toStartWith(at);
    expect((await place.shell.run("check")).err).toContain(at);
  });

  test("finds tests by ids and globs", async () => {
    const other = "prompts: hi\ntests: [{}]\n";
    using place = new Workplace({
      [testFile]: tests,
      "personas/beta/one.yaml": persona,
      "personas/beta/one.test.yml": other,
    });
    const { out } = await place.shell.run(["personas", "test", "beta/*"]);
    expect(out).toStartWith("beta/one\n");
    expect(out).not.toContain("acme");
    expect((await place.shell.run("personas test acme/nobody")).err).toBe(
      `error: There are no tests of 'acme/nobody' in ${place.folder.file("personas")}.\n`,
    );
    place.write("personas/beta/two.test.yaml", other);
    expect((await place.shell.run("personas check")).err).toBe(
      `${place.folder.file("personas/beta/two.test.yaml")}: There is no persona beta/two beside these tests\n`,
    );
  });

  test("is no persona, and changes none", async () => {
    using place = new Workplace({ [testFile]: tests });
    await place.shell.run("personas test --record");
    const { out, code } = await place.shell.run("personas check");
    expect({ out, code }).toEqual({
      out: `1 persona and 2 tests in ${place.folder.file("personas")}: no errors\n`,
      code: 0,
    });
  });

  test("reports what the persona refuses", async () => {
    const text = "prompts: hi\ntests: [{options: {passthrough: {variables: {tone: x}}}}]\n";
    using place = new Workplace({ [testFile]: text });
    const { code, out } = await place.shell.run("personas test");
    expect(code).toBe(2);
    expect(out).toContain("support.test.yaml:2: variables.tone is not a variable of this persona; it takes language.");
    expect(place.upstream.requests).toHaveLength(0);
  });
});

describe("what goes into a request beside its file", () => {
  const server = join(import.meta.dir, "../../helpers/mcp-server.ts");
  const clerk = `description: Clerk.
model: openai/gpt-5.4
system: Look it up.
knowledge: {files: ["facts/*.md"]}
mcp: [{server: desk, allow: [add, search], arguments: {}}]
`;
  const clerkTests = `prompts: "{{question}}"
tests:
  - vars: {question: what is the sum of the parcels in Trondheim?}
    assert:
      - {type: trajectory:tool-used, value: desk__add}
      - {type: trajectory:tool-used, value: add}
      - {type: trajectory:tool-used, value: {pattern: "desk__*", min: 1, max: 1}}
      - {type: trajectory:tool-args-match, value: {name: add, args: {a: 1}}}
      - {type: not-trajectory:tool-used, value: search}
      - {type: tool-call-f1, value: [desk__add]}
`;
  const file = "personas/acme/clerk.yaml";
  const facts = "personas/acme/facts/a.md";

  /** Calls `add` once. */
  const calling = (request: RecordedRequest): Response => {
    const { messages } = request.json as Body;
    if (messages.some(({ role }) => role === "tool"))
      return jsonResponse(completionOf({ content: "Three." }, "stop", usage));
    const call = {
      id: crypto.randomUUID(),
      type: "function",
      function: { name: "desk__add", arguments: '{"a":1,"b":2}' },
    };
    return jsonResponse(completionOf({ content: null, tool_calls: [call] }, "tool_calls", usage));
  };

  async function recordedPlace() {
    const place = new Workplace(
      {
        [file]: clerk,
        "personas/acme/clerk.test.yaml": clerkTests,
        [facts]: "# Trondheim\n\nParcels in Trondheim are blue.\n",
      },
      calling,
    );
    const config = place.read("troupe.yaml");
    place.write("troupe.yaml", `${config}mcp_servers: {desk: {command: ${process.execPath}, args: [${server}]}}\n`);
    const live = await place.shell.run("personas test acme/clerk --record");
    expect(live).toMatchObject({ code: 0 });
    return place;
  }

  const replayed = async (place: Workplace) => (await place.shell.run("personas test acme/clerk --replay")).out;

  test("tools by MCP and sections of files are recorded, and seen by assertions", async () => {
    using place = await recordedPlace();
    const text = place.read("personas/acme/clerk.test.recorded.yaml");
    expect(text).toContain("Parcels in Trondheim are blue.");
    expect(text).toContain(
      "      mcp:\n        - server: desk\n          allow:\n            - add\n            - search\n",
    );
    expect(text).toContain(
      '        mcp_calls:\n          - server: desk\n            tool: add\n            arguments: \'{"a":1,"b":2}\'\n            is_error: false\n',
    );
    expect(await replayed(place)).toContain("1 passed");
    await place.shell.run("personas test acme/clerk --record");
    expect(place.read("personas/acme/clerk.test.recorded.yaml")).toBe(text);
  });

  test("and a change of either is an error of the replay that names it", async () => {
    using place = await recordedPlace();
    const changes: [string, string, string, string][] = [
      [file, "allow: [add, search]", "allow: [add, remove]", 'mcp[0].allow[1]: "search" → "remove"'],
      [file, "arguments: {}", "arguments: {repo: a}", 'mcp[0].arguments.repo is new: "a"'],
      [file, /mcp: .*\n/.exec(clerk)![0], "", 'mcp is gone: [{"server":"desk"'],
      [file, "mcp:", "mcp_limits: {calls: 3}\nmcp:", 'mcp_limits is new: {"calls":3}'],
      [file, 'knowledge: {files: ["facts/*.md"]}\n', "", "messages[1].content"],
      [file, "knowledge:", "lorebook: {entries: [{keys: [parcels], content: Ship.}]}\nknowledge:", "<lorebook>"],
      [facts, "blue", "green", "are blue."],
    ];
    for (const [path, from, to, told] of changes) {
      const before = place.read(path);
      place.write(path, before.replace(from, to));
      const out = await replayed(place);
      expect(out).toContain("the request has changed since it was recorded");
      expect(out).toContain(told);
      place.write(path, before);
    }
    expect(await replayed(place)).toContain("1 passed");
  });
});

test("no key is needed by what calls nobody, and is by what does", async () => {
  using place = new Workplace({ [testFile]: tests });
  await place.shell.run("personas test --record");
  const more = "mcp_servers: {desk: {url: '${DESK_URL}', headers: {authorization: 'Bearer ${DESK_TOKEN}'}}}\n";
  place.write(
    "troupe.yaml",
    `store: \${DATABASE_URL}\nworkers: \${WORKERS}\nproviders:\n  openai: {api_key: "\${OPENAI_API_KEY}"}\n  azure: {base_url: "https://\${HOST}/openai", api_keys: ["\${A}", "\${B}"]}\n${more}`,
  );
  for (const command of [
    "check",
    "test --replay",
    "new acme/b --description B --system B",
    "show acme/support",
    "list",
  ]) {
    const { code, err } = await place.shell.run(`personas ${command}`);
    expect({ command, code, err: /not set/.exec(err)?.[0] }).toEqual({ command, code: 0, err: undefined });
  }
  for (const command of ["test", "test --record"])
    expect((await place.shell.run(`personas ${command}`)).err).toContain("refers to OPENAI_API_KEY, which is not set");
  place.write("troupe.yaml", "providers: {openai: {api_key: '${OPENAI_API_KEY}', api_kye: 1}}\n");
  expect(await place.shell.run("personas check")).toMatchObject({ code: 1, err: expect.stringContaining("api_kye") });
});

test("a recording changes where the answer does, and not for its time or the ids of calls", async () => {
  let content: string | null = null;
  const tool_calls = () => [{ id: crypto.randomUUID(), type: "function", function: { name: "a", arguments: "{}" } }];
  using place = new Workplace(
    {
      [testFile]:
        "tests: [{vars: {prompt: hi}, options: {passthrough: {tools: [{type: function, function: {name: a}}]}}}]\n",
    },
    () =>
      jsonResponse(completionOf(content === null ? { content, tool_calls: tool_calls() } : { content }, "stop", usage)),
  );
  const record = async () => {
    await place.shell.run("personas test --record");
    return place.read(recorded);
  };
  const first = (await record()).replace(/latency_ms: \d+/, "latency_ms: 12345");
  place.write(recorded, first);
  expect(await record()).toBe(first);
  content = "Hello";
  expect(await record()).not.toContain("12345");
});

test("one faulty file of tests, or recording, keeps no other from running", async () => {
  using place = new Workplace({
    [testFile]: tests,
    "personas/acme/other.yaml": persona,
    "personas/acme/other.test.yaml": "tests: [{vars: {prompt: x}, asert: []}]\n",
    "personas/acme/third.yaml": persona,
    "personas/acme/third.test.yaml": "tests: [{vars: {prompt: x}}]\n",
  });
  const live = await place.shell.run("personas test --record");
  expect(live.code).toBe(2);
  expect(live.out).toContain("3 passed");
  expect(live.err).toContain("other.test.yaml:1:29: tests[0].asert: is not a known key");
  place.write("personas/acme/third.test.recorded.yaml", "recordings: {}\n");
  const { code, out, err } = await place.shell.run("personas test --replay");
  expect(code).toBe(2);
  expect(out).toContain("2 passed, 1 error");
  expect(err).toContain("third.test.recorded.yaml:1:13: recordings must be an array");
  expect(out).toContain("record it anew");
  expect((await place.shell.run("personas test acme/other")).code).toBe(2);
  const asked = place.upstream.requests.length;
  expect((await place.shell.run("personas test --record")).err).toContain("third.test.recorded.yaml:1:13");
  expect(place.upstream.requests).toHaveLength(asked);
});

test("a test's own share of its repetitions has to pass, unless the command says another", async () => {
  let count = 0;
  const options = (threshold: number) => `options: {repeat: 4, threshold: ${threshold}}`;
  const file = `defaultTest: {${options(0.5)}}
tests:
  - {description: half, vars: {prompt: x}, assert: [{type: contains, value: even}]}
  - {description: more, vars: {prompt: x}, options: {threshold: 0.75}, assert: [{type: contains, value: even}]}
`;
  using place = new Workplace({ [testFile]: file }, () => {
    count += 1;
    return jsonResponse(completionOf({ content: count % 2 === 0 ? "even" : "odd" }, "stop", usage));
  });
  const { code, out } = await place.shell.run("personas test --concurrency 1");
  expect(code).toBe(1);
  expect(out).toMatch(/pass {2}half {2}2 of 4 passed/);
  expect(out).toMatch(/FAIL {2}more {2}2 of 4 passed/i);
  expect((await place.shell.run("personas test --concurrency 1 --threshold 0.5")).code).toBe(0);
});

describe("personas test --record and --replay", () => {
  test("answers from what was recorded, without a provider", async () => {
    using place = new Workplace({ [testFile]: tests });
    const live = await place.shell.run("personas test --record");
    expect(live.err).toEndWith(`Recorded 2 tests in ${place.folder.file(recorded)}.\n`);
    const calls = place.upstream.requests.length;
    place.write("troupe.yaml", "{}\n");
    const replayed = await place.shell.run("personas test --replay");
    expect(replayed).toMatchObject({ code: 0, out: live.out });
    expect(replayed.err).toMatch(/^1\/2 pass/);
    expect(place.upstream.requests).toHaveLength(calls);
    expect(existsSync(place.folder.file("data"))).toBe(false);
  });

  test("writes what a review can read, the same each time, and no key", async () => {
    using place = new Workplace({ [testFile]: tests });
    await place.shell.run("personas test --record");
    const text = place.read(recorded);
    expect(
      text.replaceAll(/latency_ms: \d+/g, "latency_ms: 9"),
    ).toBe(`# Written by 'troupe personas test --record'; --replay answers from it.
recordings:
  - test: names the parcel
    request:
      models:
        - openai/gpt-5.4
      messages:
        - role: system
          content: Help in German.
        - role: user
          content: where is my parcel?
      max_tokens: 200
    answers:
      - content: WHERE IS MY PARCEL? by gpt-5.4
        finish_reason: stop
        usage:
          prompt_tokens: 1000
          completion_tokens: 100
        cost: 0.004
        latency_ms: 9
  - test: is polite
    request:
      models:
        - openai/gpt-5.4
      messages:
        - role: system
          content: Help in English.
        - role: user
          content: please help
      max_tokens: 200
    answers:
      - content: PLEASE HELP by gpt-5.4
        finish_reason: stop
        usage:
          prompt_tokens: 1000
          completion_tokens: 100
        cost: 0.004
        latency_ms: 9
        grades:
          - grader: openai/gpt-5.4-mini
            rubric: Is polite
            pass: true
            score: 0.9
            reason: it is polite
            cost: 0.0012
`);
    place.write(testFile, "prompts: leak it\ntests: [{description: leaks}]\n");
    const { code, err } = await place.shell.run("personas test --record");
    expect({ code, text: place.read(recorded) }).toEqual({ code: 1, text });
    expect(err).toEndWith(`${place.folder.file(recorded)} was not written: an answer holds the key of openai.\n`);
  });

  test("records anew what is asked, keeps the rest, and drops what is gone", async () => {
    using place = new Workplace({ [testFile]: tests });
    await place.shell.run("personas test --record");
    place.write(testFile, tests.replace("is polite", "is kind").replace("PARCEL}", "PARCEL}\n      - {type: is-json}"));
    const { err } = await place.shell.run("personas test --record --filter parcel");
    expect(err).toContain("Recorded 1 test in ");
    const { code, out } = await place.shell.run("personas test --replay");
    expect(code).toBe(1);
    expect(out).toContain("  FAIL  names the parcel");
    expect(out).toContain("support.test.yaml:9: there is no recording of this test");
  });

  const changes: [name: string, file: string, from: string, to: string, problem: string][] = [
    [
      "system text",
      "personas/acme/support.yaml",
      "Help in",
      "Assist in",
      'the request has changed since it was recorded: messages[0].content: "Help in German." → "Assist in German."',
    ],
    [
      "model",
      "personas/acme/support.yaml",
      "gpt-5.4",
      "gpt-5.5",
      'the request has changed since it was recorded: models[0]: "openai/gpt-5.4" → "openai/gpt-5.5"',
    ],
    [
      "limit",
      "personas/acme/support.yaml",
      "defaults: {max_tokens: 200}",
      "defaults: {temperature: 1}",
      "the request has changed since it was recorded: max_tokens is gone: 200; temperature is new: 1",
    ],
    ["question", testFile, "my parcel", "it", 'messages[1].content: "where is my parcel?" → "where is it?"'],
  ];

  test.each(changes)("names a changed %s", async (_, file, from, to, problem) => {
    using place = new Workplace({ [testFile]: tests });
    await place.shell.run("personas test --record");
    place.write(file, place.read(file).replace(from, to));
    const { code, out } = await place.shell.run("personas test --replay --filter parcel");
    expect(code).toBe(2);
    expect(out).toContain(problem);
  });

  test("says what else is missing", async () => {
    using place = new Workplace({ [testFile]: tests });
    const missing = await place.shell.run("personas test --replay --filter polite");
    expect(missing.out).toContain("there is no recording of this test; 'troupe personas test --record' makes one");
    await place.shell.run("personas test --record");
    const often = await place.shell.run("personas test --replay --filter polite --repeat 2");
    expect(often.out).toContain("1 answer is recorded, and 2 are needed");
    place.write(testFile, tests.replace("Is polite", "Is very polite"));
    const graded = await place.shell.run("personas test --replay --filter polite");
    expect({ code: graded.code, out: graded.out }).toEqual({
      code: 2,
      out: expect.stringContaining("there is no recorded grade by openai/gpt-5.4-mini for this rubric"),
    });
    place.write(recorded, "recordings: {}\n");
    expect((await place.shell.run("personas test --replay")).err).toContain(
      `${place.folder.file(recorded)}:1:13: recordings must be an array`,
    );
  });
});

describe("personas test beside another", () => {
  const words = `prompts: hello
tests:
  - {description: newer, assert: [{type: contains, value: "gpt-5.5"}]}
  - {description: older, assert: [{type: contains, value: "gpt-5.4"}]}
  - {description: both, assert: [{type: contains, value: "HELLO"}]}
`;

  test("model shows what changed", async () => {
    using place = new Workplace({ [testFile]: words });
    const { code, out } = await place.shell.run("personas test --against openai/gpt-5.5");
    expect(code).toBe(1);
    const [, after] = out
      .replaceAll(/\d+ ms +/g, "9 ms     ")
      .replaceAll(/\d+ ms/g, "9 ms")
      .split("\n\n");
    expect(after).toBe(
      [
        "                  current  openai/gpt-5.5",
        "passed            2 of 3   2 of 3",
        "failed            1        1",
        "errors            0        0",
        "cost              $0.012   $0.024",
        "latency (median)  9 ms     9 ms",
        "Verdicts that differ:",
        '  fail → pass  acme/support: newer: contains: does not contain "gpt-5.5"',
        '  pass → fail  acme/support: older: contains: does not contain "gpt-5.4"',
      ].join("\n"),
    );
    const { out: json } = await place.shell.run("personas test --against openai/gpt-5.5 --json");
    expect(JSON.parse(json)).toMatchObject({
      sides: [
        { side: "current", summary: { passed: 2 } },
        { side: "openai/gpt-5.5", summary: { failed: 1 } },
      ],
      changes: [{ name: "newer", before: "fail", after: "pass" }, { name: "older" }],
    });
  });

  test("is asked alone where a model takes the place of another", async () => {
    using place = new Workplace({ [testFile]: words });
    const { out } = await place.shell.run("personas test --model openai/gpt-5.5");
    expect(out).toContain("  pass  newer");
    expect(place.upstream.requests.map(({ json }) => (json as Body).model)).toEqual(["gpt-5.5", "gpt-5.5", "gpt-5.5"]);
  });

  test("version shows what changed, and a label's", async () => {
    using place = new Workplace({ [testFile]: words });
    const later = async (text: string) => {
      place.write("personas/acme/support.yaml", text);
      const config = { personas: place.folder.file("personas"), data: place.folder.file("data") };
      await using troupe = await Troupe.start({ ...config, providers: { openai: { baseUrl: place.upstream.url } } });
      const { services } = troupe.server;
      await services.loading;
      const { version } = services.personas.find("acme/support")!;
      await services.personaVersions.record();
      return version;
    };
    const first = await later(persona);
    await later(persona.replace("gpt-5.4", "gpt-5.5"));
    const line = `personas test --data ${place.folder.file("data")} --against`;
    for (const other of [`acme/support@${first}`, `@${first}`, "@stable"]) {
      if (other === "@stable") place.write("personas/labels.yaml", `acme/support: {stable: "${first}"}\n`);
      const { code, out, err } = await place.shell.run(`${line} ${other}`);
      expect({ code, err: err.includes("error") }).toEqual({ code: 1, err: false });
      expect(out).toContain(`fail → pass  acme/support: older: contains: does not contain "gpt-5.4"`);
      expect(out).toContain("pass → fail  acme/support: newer");
    }
    const lost = await place.shell.run(`${line} @000000000000`);
    expect(lost.out).toContain("pass → error  acme/support: newer: 404: ");
  });

  test("variant is asked alone, and none where none is named", async () => {
    using place = new Workplace({ [testFile]: words });
    const variants = "variants: [{weight: 0}, {name: candidate, weight: 100, model: openai/gpt-5.5}]\n";
    place.write("personas/acme/support.yaml", persona + variants);
    expect((await place.shell.run("personas test --filter older")).code).toBe(0);
    expect((await place.shell.run("personas test --filter newer --variant candidate")).code).toBe(0);
    expect((await place.shell.run("personas test --variant other")).err).toStartWith(
      "error: acme/support has no variant 'other'.\n",
    );
  });

  test("refuses what does not go together", async () => {
    using place = new Workplace({ [testFile]: words });
    const refused = async (line: string) => {
      const { code, err } = await place.shell.run(`personas test ${line}`);
      expect(code).toBe(2);
      return err.split("\n")[0];
    };
    expect(await refused("--record --replay")).toContain("cannot be used with option '--replay'");
    expect(await refused("--replay --model openai/x")).toBe(
      "error: --replay is for the personas' own models: leave --model out.",
    );
    expect(await refused("--against nothing")).toBe(
      "error: --against takes <persona>@<version or label>, @<label>, or <provider>/<model>.",
    );
    expect(await refused("--url http://127.0.0.1:1")).toBe("error: --url needs an API key in the variable TROUPE_KEY.");
    expect(await refused("--threshold 2")).toContain("It must be a share from 0 to 1");
    expect(await refused("--filter (")).toStartWith("error: --filter is no regular expression");
  });
});

test("personas test --url asks a running server", async () => {
  using place = new Workplace({ [testFile]: tests });
  await using troupe = await Troupe.start({
    personas: place.folder.file("personas"),
    providers: { openai: { baseUrl: place.upstream.url } },
  });
  await troupe.server.services.loading;
  place.shell.env["TROUPE_KEY"] = troupe.key;
  const { code, out } = await place.shell.run(`personas test --url ${troupe.url}/`);
  expect({ code, out: out.split("\n").at(-2) }).toEqual({ code: 0, out: "2 passed; 2 tests, 2 answers, $0.0092" });
  expect(place.upstream.last.headers.get("authorization")).toBe("Bearer key-of-openai");
  place.shell.env["TROUPE_KEY"] = "trp_wrong";
  expect((await place.shell.run(`personas test --url ${troupe.url}`)).code).toBe(2);
});

/** JUnit's reports as Apache Ant's schema has them: https://github.com/windyroad/JUnit-Schema, in our own words. */
const junitSchema = readFileSync(join(import.meta.dir, "../../fixtures/junit.xsd"), "utf8");

test("personas test --junit writes what the schema of JUnit's reports takes", async () => {
  const text = `prompts: "{{question}}"
tests:
  - {description: "passes <&\\"'> \\u0001", vars: {question: hello}}
  - {description: fails, vars: {question: "a ]]> b"}, assert: [{type: equals, value: "x\\ny"}]}
  - {description: down, vars: {question: down}}
`;
  using place = new Workplace({ [testFile]: text });
  const { code } = await place.shell.run("personas test --junit out.xml --json out.json");
  expect(code).toBe(1);
  const xml = place.read("out.xml");
  const checked = await validateXML({
    xml: { fileName: "out.xml", contents: xml },
    schema: { fileName: "junit.xsd", contents: junitSchema },
  });
  expect(checked.errors).toEqual([]);
  expect(checked.valid).toBe(true);
  expect(xml).toMatch(
    /<testsuite name="acme\/support" package="personas" id="0" timestamp="[\d-]+T[\d:]+" hostname="localhost" tests="3" failures="1" errors="1" time="/,
  );
  expect(xml).toContain(`<testcase name="passes &lt;&amp;&quot;'&gt; \ufffd"`);
  expect(xml).toContain('<failure type="failure" message="equals: is not &quot;x\\ny&quot;">');
  expect(xml).toContain("A ]]&gt; B by gpt-5.4</failure>");
  expect(xml).toContain('<error type="error" message="400: The model does not accept this request as it is.">');
  expect(JSON.parse(place.read("out.json"))).toMatchObject({
    sides: [
      {
        side: "current",
        summary: { tests: 3, passed: 1, failed: 1, errors: 1, answers: 2, cost: 0.008, unknown_costs: 0 },
        tests: [
          { persona: "acme/support", line: 3, verdict: "pass", runs: [{ output: "HELLO by gpt-5.4", cost: 0.004 }] },
          { verdict: "fail", runs: [{ assertions: [{ type: "equals", verdict: "fail", line: 4 }] }] },
          { verdict: "error", runs: [{ problem: "400: The model does not accept this request as it is." }] },
        ],
      },
    ],
  });
});

test("a bar shows progress on a terminal", async () => {
  using place = new Workplace({ [testFile]: tests });
  const shell = new Console(place.folder.path, {}, true);
  const { err } = await shell.run("personas test --concurrency 1");
  expect(err.split("\r\u001b[2K").slice(1)).toEqual([
    `${"░".repeat(24)} 0/2`,
    `${"█".repeat(12)}${"░".repeat(12)} 1/2`,
    `${"█".repeat(24)} 2/2`,
    "",
  ]);
});
