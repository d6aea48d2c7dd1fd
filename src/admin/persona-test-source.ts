/** The admin API's routes of personas' test files: read, checked, a request made one more test, and saved as the personas' own files are. */
import { Type } from "@sinclair/typebox";
import { PersonaTestDraft, PersonaTestSource, PersonaTestsChecked } from "../api/persona-sources.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { Closed, Open } from "../lib/json/schemas.ts";
import { YamlSource } from "../lib/yaml/yaml.ts";
import { checkTests } from "../operate/personas/check.ts";
import { NotSaved, readTests, savePersonaTests } from "../operate/personas/save.ts";
import { maxFileBytes } from "../personas/file/read-file.ts";
import type { KeptRequest } from "../personas/suites/keep.ts";
import { TestFile } from "../personas/suites/schema.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";
import { idOf, Named, notSaved, readOnlyBecause, saveRefusals, saving, Text } from "./persona-files.ts";

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
        const saved = await savePersonaTests(operator, services, id, body);
        return saved instanceof NotSaved ? notSaved(saved, context) : sourceJson(services, id);
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
        if (errors.length > 0) return notSaved(new NotSaved(checkTests(services, id, base, path).findings), context);
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
