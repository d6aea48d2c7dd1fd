/**
 * Clients that generators make of the API's description: each is generated at the version of `versions.json`, compiled as its users do, and
 * makes one call to a running server. In the long form alone; what can't be installed is skipped by name.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { adminRoutes } from "../../src/admin/routes.ts";
import { surfaceNames } from "../../src/config/surfaces.ts";
import { openApiDocument } from "../../src/http/app.ts";
import { installed, pythonWith } from "../helpers/installed-folder.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import versions from "./versions.json" with { type: "json" };

const { npm, python: wheels, go: modules } = versions.generators;
const hashOf = (texts: readonly string[]) => Bun.hash(JSON.stringify(texts)).toString(36);

/** Waits without holding up the server that is called. @returns what it wrote @throws Error with all of that */
async function run(
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = Bun.spawn([...command], { cwd, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  const [output, errors, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (exitCode !== 0)
    throw new Error(`${command.join(" ")} ended with ${exitCode}:\n${output}\n${errors}`.slice(0, 5_000));
  return output;
}

const packages = installed(`generators-npm-${hashOf(npm)}`, (cwd) => {
  writeFileSync(join(cwd, "package.json"), "{}");
  return Bun.spawnSync(["npm", "install", "--ignore-scripts", ...npm], { cwd, timeout: 300_000 }).success || undefined;
});
const python = pythonWith("generators", wheels);
const programs = installed(`generators-go-${hashOf(modules)}`, (cwd) => {
  if (Bun.which("go") === null) return undefined;
  const env = { ...process.env, GOBIN: cwd };
  return Bun.spawnSync(["go", "install", ...modules], { cwd, env, timeout: 300_000 }).success || undefined;
});

const folder = untilEnd(new TempFolder());
const troupe = untilEnd(await Troupe.start());
writeFileSync(folder.file("openapi.json"), JSON.stringify(await openApiDocument(surfaceNames, adminRoutes)));

const body = '{ model: "builtin/echo", messages: [{ role: "user", content: "Hello!" }] }';
const minutes = 10 * 60_000;

/** By its name: the generator's command behind `npx`, and a program that says what it was answered. */
const typescript: Readonly<Record<string, { readonly command: readonly string[]; readonly program: string }>> = {
  "openapi-typescript": {
    command: ["openapi-typescript", "openapi.json", "-o", "api.ts"],
    program: `import createClient from "openapi-fetch";
import type { paths } from "./api";
const client = createClient<paths>({ baseUrl: process.env["URL"]!, headers: { authorization: "Bearer " + process.env["KEY"] } });
const { data } = await client.POST("/gateway/v1/chat/completions", { body: ${body} });
if (data === undefined || !("choices" in data)) throw new Error("no completion");
console.log(data.choices[0]!.message.content);`,
  },
  "@hey-api/openapi-ts": {
    command: ["openapi-ts", "-i", "openapi.json", "-o", "api", "-c", "@hey-api/client-fetch"],
    program: `import { client } from "./api/client.gen";
import { gatewayCreateChatCompletion } from "./api";
client.setConfig({ baseUrl: process.env["URL"]!, auth: process.env["KEY"]! });
const { data } = await gatewayCreateChatCompletion({ body: ${body} });
console.log((data as { choices: { message: { content: string } }[] }).choices[0]!.message.content);`,
  },
  orval: {
    command: ["orval", "--input", "openapi.json", "--output", "api.ts", "--client", "fetch"],
    program: `import { gatewayCreateChatCompletion } from "./api";
const plain = globalThis.fetch;
globalThis.fetch = ((path: string, init: RequestInit) => plain(process.env["URL"] + path, init)) as typeof fetch;
const headers = { authorization: "Bearer " + process.env["KEY"] };
const { data } = await gatewayCreateChatCompletion(${body}, { headers });
const streamed = await gatewayCreateChatCompletion({ ...${body}, stream: true }, { headers });
if (!String(streamed.data).includes("[DONE]")) throw new Error("the stream was not read");
console.log((data as { choices: { message: { content: string } }[] }).choices[0]!.message.content);`,
  },
};

const server = () => ({ URL: troupe.url, KEY: troupe.key });
const inFolder = (name: string) => {
  const path = folder.file(name.replaceAll(/\W/g, "-"));
  mkdirSync(path);
  return path;
};

(packages === undefined ? describe.skip : describe)(
  `generators of npm${packages === undefined ? ": not installed" : ""}`,
  () => {
    test.each(Object.entries(typescript))(
      "%s",
      async (name, { command: [program, ...words], program: text }) => {
        const cwd = join(packages!, `run-${process.pid}-${name.replaceAll(/\W/g, "-")}`);
        mkdirSync(cwd);
        using _removed = { [Symbol.dispose]: () => rmSync(cwd, { recursive: true }) };
        writeFileSync(join(cwd, "openapi.json"), await Bun.file(folder.file("openapi.json")).text());
        const bin = (one: string) => join(packages!, "node_modules/.bin", one);
        await run([bin(program!), ...words], cwd);
        // What only types of this runtime would say.
        writeFileSync(
          join(cwd, "main.ts"),
          `declare const process: { env: Record<string, string> };\n${text}\nexport {};\n`,
        );
        const strict = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext"];
        const lib = ["--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable"];
        await run([bin("tsc"), ...strict, ...lib, "main.ts"], cwd);
        expect(await run([process.execPath, "main.ts"], cwd, server())).toContain("Hello!");
      },
      minutes,
    );
  },
);

(python === undefined ? describe.skip : describe)(
  `generators of Python${python === undefined ? ": not installed" : ""}`,
  () => {
    test(
      "openapi-python-client",
      async () => {
        const cwd = inFolder("opc");
        await run(
          [
            python!,
            "-m",
            "openapi_python_client",
            "generate",
            "--path",
            "../openapi.json",
            "--output-path",
            "api",
            "--meta",
            "none",
          ],
          cwd,
        );
        const text = `import os
from api.client import AuthenticatedClient
from api.api.gateway import gateway_create_chat_completion as create
from api.models import GatewayChatRequest
body = GatewayChatRequest.from_dict({"model": "builtin/echo", "messages": [{"role": "user", "content": "Hello!"}]})
client = AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["KEY"])
print(create.sync(client=client, body=body).choices[0].message.content)`;
        expect(await run([python!, "-c", text], cwd, server())).toContain("Hello!");
      },
      minutes,
    );

    test(
      "datamodel-code-generator",
      async () => {
        const cwd = inFolder("dm");
        const model = ["--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11"];
        await run(
          [
            python!,
            "-m",
            "datamodel_code_generator",
            "--input",
            "../openapi.json",
            "--input-file-type",
            "openapi",
            "--output",
            "api.py",
            ...model,
          ],
          cwd,
        );
        const response = await troupe.post("/gateway/v1/chat/completions", {
          model: "builtin/echo",
          messages: [{ role: "user", content: "Hello!" }],
        });
        const text = `import os, api
api.GatewayChatRequest.model_validate({"model": "builtin/echo", "messages": [{"role": "user", "content": "Hello!"}]})
print(api.ChatCompletion.model_validate_json(os.environ["ANSWER"]).choices[0].message.content)`;
        expect(await run([python!, "-c", text], cwd, { ANSWER: await response.text() })).toContain("Hello!");
      },
      minutes,
    );
  },
);

(programs === undefined ? describe.skip : describe)(
  `generators of Go${programs === undefined ? ": not installed" : ""}`,
  () => {
    test(
      "oapi-codegen",
      async () => {
        const cwd = inFolder("go");
        mkdirSync(join(cwd, "api"));
        await run(
          [
            join(programs!, "oapi-codegen"),
            "-generate",
            "types,client",
            "-package",
            "api",
            "-o",
            "api/api.go",
            "../openapi.json",
          ],
          cwd,
        );
        const text = `package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"program/api"
)

func main() {
	client, err := api.NewClientWithResponses(os.Getenv("URL"), api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("authorization", "Bearer "+os.Getenv("KEY"))
		return nil
	}))
	if err != nil {
		panic(err)
	}
	body := strings.NewReader(\`{"model": "builtin/echo", "messages": [{"role": "user", "content": "Hello!"}]}\`)
	answer, err := client.GatewayCreateChatCompletionWithBodyWithResponse(context.Background(), nil, "application/json", body)
	if err != nil {
		panic(err)
	}
	fmt.Println(*answer.JSON200.Choices[0].Message.Content)
}
`;
        writeFileSync(join(cwd, "main.go"), text);
        await run(["go", "mod", "init", "program"], cwd);
        await run(["go", "mod", "tidy"], cwd);
        expect(await run(["go", "run", "."], cwd, server())).toContain("Hello!");
      },
      minutes,
    );
  },
);
