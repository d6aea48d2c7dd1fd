/** The admin API's routes of personas' test files: read, checked, a request made one more test, and saved as the personas' own files are. */
import { Type } from "@sinclair/typebox";
import { PersonaTestDraft, PersonaTestSource, PersonaTestsChecked } from "../api/persona-sources.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { Closed, Open } from "../lib/json/schemas.ts";
import { YamlSource } from "../lib/yaml/yaml.ts";
import { planTest } from "../operate/suites/run-tests.ts";
import { maxFileBytes } from "../personas/file/read-file.ts";
import { pathOf, readSource } from "../personas/file/source-file.ts";
import type { KeptRequest } from "../personas/suites/keep.ts";
import { TestFile } from "../personas/suites/schema.ts";
import { parseTestFile } from "../personas/suites/test-file.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";
import { findingOf } from "./persona-check.ts";
import {
  errorsOf,
  idOf,
  Named,
  NotSaved,
  noSuchPersona,
  ownFile,
  readOnlyBecause,
  saveFile,
  saveRefusals,
  saving,
  Text,
} from "./persona-files.ts";

const Draft = Closed({
  text: Type.Optional(
    Type.String({ maxLength: maxFileBytes, description: "Of a file that is edited; default: the one that is there." }),
  ),
  description: Type.Optional(Type.String({ maxLength: 1000, description: "Default: how the question begins." })),
  messages: Type.Array(Open({ role: Type.String() }), { minItems: 1, maxItems: 1000 }),
  variables: Type.Optional(Type.Record(Type.String(), Type.String())),
  fields: Type.Optional(
    Open({}, { description: "Other fields of the request; those that a test can't have are left out." }),
  ),
  assert: Type.Array(Open({ type: Type.String() }), { maxItems: 1000, description: "Assertions, as in a test file." }),
});
const nameOf = (id: string) => `${id}.test`;

/** @throws ApiError not_found where there is no persona that the tests would be of */
async function readTests(services: Services, id: string) {
  const own = await ownFile(services, id);
  const { folder } = services.live.config.personas;
  if (own === undefined && services.personas.find(id) === undefined) throw noSuchPersona();
  const found = await readSource(folder, nameOf(id));
  const path = found?.path ?? (await pathOf(folder, nameOf(id)));
  return { path, text: found?.text ?? "", hash: found?.hash ?? null, isPersonaThere: own !== undefined };
}

/** What is wrong with the text of a test file, and its tests. Those that the persona would refuse have a warning. */
function checkTests(services: Services, id: string, text: string, file: string) {
  const whole = (message: string) => findingOf({ file, line: 0, column: 0, path: "", message });
  if (Buffer.byteLength(text) > maxFileBytes)
    return { tests: [], findings: [whole(`This is larger than ${maxFileBytes / 1024} KiB`)] };
  const { variants: _, ...persona } = services.personas.find(id) ?? {};
  const declared = "variables" in persona ? new Set(persona.variables.keys()) : undefined;
  const parsed = parseTestFile(text, file, { persona: id, declared });
  if ("errors" in parsed) return { tests: [], findings: parsed.errors.map((one) => findingOf(one)) };
  const { tests } = parsed.suite;
  const planned = "id" in persona ? tests.map((test) => planTest(test, persona, file)) : [];
  return {
    tests: tests.map(({ name, line }) => ({ name, line })),
    findings: planned.flatMap(({ test: { line }, problem }) =>
      problem === undefined ? [] : findingOf({ file, line, column: 1, path: "", message: problem }, "warning"),
    ),
  };
}

/** The findings of a file that there is: what is not there has no faults. */
const findingsOf = (services: Services, id: string, { path, text, hash }: Awaited<ReturnType<typeof readTests>>) =>
  hash === null ? [] : checkTests(services, id, text, path).findings;

async function sourceJson(services: Services, id: string) {
  const found = await readTests(services, id);
  const { path, text, hash, isPersonaThere } = found;
  return {
    object: "persona.test_source" as const,
    ...{ id, file: path, text, hash, read_only: await readOnlyBecause(services, isPersonaThere) },
    findings: findingsOf(services, id, found),
  };
}

const edited = (services: Services, id: string) => ({
  ...{ id, name: nameOf(id) },
  check: async (text: string, path: string) => checkTests(services, id, text, path).findings,
  compiledHash: async () => null,
});

export const personaTestSourceRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas/:namespace/:name/tests/source",
      ({ services, params }) => sourceJson(services, idOf(params)),
      adminOperation({
        operationId: "adminGetPersonaTestSource",
        summary: "The test file of a persona as it is now, with what the checker finds in it",
        params: Named,
        response: PersonaTestSource,
        errors: [404],
      }),
    )
    .put(
      "/v1/personas/:namespace/:name/tests/source",
      async ({ services, context, params, body, operator }) => {
        const id = idOf(params);
        if (services.live.config.console.write) await readTests(services, id);
        const saved = await saveFile(services, edited(services, id), body);
        if (saved instanceof NotSaved) return saved.answer(context);
        const { before, after } = saved;
        await operator.record({
          act: "persona.save_tests",
          subject: id,
          before: { hash: before },
          after: { hash: after },
        });
        return sourceJson(services, id);
      },
      adminOperation({
        operationId: "adminSavePersonaTestSource",
        summary: "Saves the test file of a persona, or makes it",
        response: PersonaTestSource,
        ...saving,
      }),
    )
    .post(
      "/v1/personas/:namespace/:name/tests/check",
      async ({ services, params, body: { text } }) => {
        const id = idOf(params);
        const { path } = await readTests(services, id);
        return { object: "persona.test_check" as const, id, ...checkTests(services, id, text, path) };
      },
      adminOperation({
        operationId: "adminCheckPersonaTests",
        summary: "What the checker finds in the text of a persona's test file",
        params: Named,
        body: Closed({ text: Text }),
        examples: {
          text: {
            summary: "A text",
            value: { text: "tests: [{ vars: { prompt: Hello }, assert: [{ type: contains, value: Hello }] }]\n" },
          },
        },
        response: PersonaTestsChecked,
        errors: [404, ...writing],
      }),
    )
    .post(
      "/v1/personas/:namespace/:name/tests/draft",
      async ({ services, context, params, body }) => {
        const id = idOf(params);
        const found = await readTests(services, id);
        const { path, hash } = found;
        const { text: base = found.text, messages, ...request } = body;
        const { keepAsTest } = await import("../personas/suites/keep.ts");
        const declared = new Set(services.personas.find(id)?.variables.keys());
        const present = new YamlSource(base, path);
        // A file of comments alone is as good as none. What its tests lack is found in the text with one more.
        const isBegun = (present.value ?? null) !== null;
        const errors = isBegun ? present.check(TestFile) : present.errors;
        if (errors.length > 0)
          return new NotSaved(errorsOf(checkTests(services, id, base, path).findings)).answer(context);
        const text = keepAsTest(
          base,
          { ...request, messages } as unknown as KeptRequest,
          declared,
          services.live.config.log.redact,
        );
        const { findings } = checkTests(services, id, text, path);
        return { object: "persona.test_draft" as const, id, file: path, text, hash, findings };
      },
      adminOperation({
        operationId: "adminDraftPersonaTest",
        summary: "The test file of a persona with one more test, made of a request; nothing is saved",
        description:
          "What the file holds stays as it was written, comments included. Texts that hold {{, {% or {# become values of vars, so that they are asked as they are.",
        params: Named,
        body: Draft,
        examples: {
          question: {
            summary: "A question",
            value: {
              messages: [{ role: "user", content: "Where is my parcel?" }],
              assert: [{ type: "icontains", value: "parcel" }],
            },
          },
        },
        response: PersonaTestDraft,
        errors: [404, ...writing],
        others: { 422: saveRefusals[422] },
      }),
    );
