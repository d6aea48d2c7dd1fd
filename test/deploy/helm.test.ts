/** deploy/helm/troupe as helm renders it: each object one of its kind, and the settings in it those that the program takes. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1";
import manifest from "../../package.json" with { type: "json" };
import { loadConfig } from "../../src/config/load.ts";
import { providers } from "../../src/providers/registry.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const chart = "deploy/helm/troupe";
type Rendered = {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
} & Record<string, unknown>;

function helm(values: object, ...words: string[]) {
  const flags = ["template", "mine", chart, "--kube-version", "1.30.0", "--values", "-", ...words];
  const { exitCode, stdout, stderr } = Bun.spawnSync(["helm", ...flags], {
    stdin: Buffer.from(JSON.stringify(values)),
  });
  return { code: exitCode, out: stdout.toString(), err: stderr.toString() };
}

function rendered(values: object): Rendered[] {
  const { out, err } = helm(values);
  expect(err).toBe("");
  return out
    .split(/^---$/m)
    .map((part) => Bun.YAML.parse(part) as Rendered | null)
    .filter((one) => one !== null);
}

const kindsOf = (objects: Rendered[]) => objects.map(({ kind }) => kind).toSorted();
const deploymentOf = (objects: Rendered[]) =>
  objects.find(({ kind }) => kind === "Deployment") as unknown as IDeployment;

const everything = {
  replicas: 3,
  config: { store: "${DATABASE_URL}", shutdown: { delay_seconds: 5, drain_seconds: 300 }, log: { level: "warn" } },
  personas: {
    "team/greeter.yaml": "description: Greets.\nmodel: builtin/echo\nsystem: Greet.\n",
    "labels.yaml": "{}\n",
  },
  secrets: { values: { DATABASE_URL: "postgres://u:p@db.example.com/troupe", OPENAI_API_KEY: "x" } },
  ingress: { enabled: true, host: "llm.example.com", tlsSecret: "tls" },
  podMonitor: { enabled: true, keySecret: "metrics" },
};

test("the chart's versions are the program's", () => {
  const { version, appVersion } = Bun.YAML.parse(readFileSync(`${chart}/Chart.yaml`, "utf8")) as Record<string, string>;
  expect([version, appVersion]).toEqual([manifest.version, manifest.version]);
});

describe.skipIf(Bun.which("helm") === null)("helm", () => {
  test("finds no fault with the chart", () => {
    const { exitCode, stdout } = Bun.spawnSync(["helm", "lint", "--strict", "--kube-version", "1.30.0", chart]);
    expect({ exitCode, said: stdout.toString() }).toEqual({
      exitCode: 0,
      said: expect.stringContaining("1 chart(s) linted, 0 chart(s) failed"),
    });
  });

  test.each([
    { what: "as it is", values: {}, kinds: ["ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"] },
    {
      what: "with everything",
      values: everything,
      kinds: ["ConfigMap", "ConfigMap", "Deployment", "Ingress", "PodMonitor", "Secret", "Service"],
    },
  ])("$what: every object is one of its kind, without an unknown field", ({ values, kinds }) => {
    const objects = rendered(values);
    expect(kindsOf(objects)).toEqual([...kinds]);
    using temp = new TempFolder();
    const modules = join(process.cwd(), "node_modules");
    const lines = objects.flatMap(({ apiVersion, kind, ...rest }, at) => {
      const folder = kind === "PodMonitor" ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
      return [
        `import { ${kind} as Kind${at} } from ${JSON.stringify(join(modules, folder, apiVersion))};`,
        `new Kind${at}(${JSON.stringify(rest)}).validate();`,
      ];
    });
    writeFileSync(temp.file("objects.ts"), lines.join("\n"));
    const flags = ["--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler", "--noEmit"];
    const types = Bun.spawnSync([join(modules, ".bin/tsc"), ...flags, "objects.ts"], { cwd: temp.path });
    expect(types.stdout.toString()).toBe("");
    expect(Bun.spawnSync([process.execPath, "objects.ts"], { cwd: temp.path }).stderr.toString()).toBe("");
  });

  test("one pod keeps its data on a volume and is replaced; several share a database and roll", () => {
    const one = deploymentOf(rendered({})).spec!;
    expect(one.strategy).toEqual({ type: "Recreate" });
    expect(one.template.spec!.volumes).toContainEqual({
      name: "data",
      persistentVolumeClaim: { claimName: "mine-troupe" },
    });
    const several = deploymentOf(rendered(everything)).spec!;
    expect(several.strategy!.type).toBe("RollingUpdate");
    // preStop, delay and drain, and some more.
    expect(several.template.spec!.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(5 + 5 + 300);
    expect(several.template.spec!.containers[0]!.envFrom).toEqual([{ secretRef: { name: "mine-troupe" } }]);
  });

  test("the settings are those that the program takes, and each persona lies at its path", () => {
    const objects = rendered(everything);
    const maps = objects.filter(({ kind }) => kind === "ConfigMap");
    const text = maps[0]!.data!["troupe.yaml"]!;
    const readFile = (path: string) => (path === "troupe.yaml" ? text : undefined);
    const env = { DATABASE_URL: "postgres://u:p@db.example.com/troupe", TROUPE_LISTEN: "0.0.0.0:8080" };
    const loaded = loadConfig({ flags: { config: "troupe.yaml" }, env, cwd: "/", readFile }, providers);
    if ("errors" in loaded) throw new Error(JSON.stringify(loaded.errors));
    expect(loaded.config.shutdown.drainSeconds).toBe(300);
    const { volumes, containers } = deploymentOf(objects).spec!.template.spec!;
    const { items } = volumes!.find(({ name }) => name === "personas")!.configMap!;
    expect(items!.map(({ path }) => path).toSorted()).toEqual(Object.keys(everything.personas).toSorted());
    for (const { key, path } of items!)
      expect(maps[1]!.data![key]).toBe(everything.personas[path as keyof typeof everything.personas]);
    expect(containers[0]!.env).toContainEqual({ name: "TROUPE_PERSONAS", value: "/personas" });
  });

  test.each([
    { values: { replicas: 2 }, says: "set config.store" },
    { values: { persistance: {} }, says: "persistance" },
    { values: { replicas: "two" }, says: "replicas" },
    { values: { personas: { "../x.yaml": "" } }, says: "../x.yaml" },
    { values: { secrets: { existing: "a", values: { A: "b" } } }, says: "existing and values" },
  ])("refuses $values", ({ values, says }) => {
    const { code, err } = helm(values);
    expect(code).not.toBe(0);
    expect(err).toContain(says);
  });
});
