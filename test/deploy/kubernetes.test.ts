/**
 * deploy/kubernetes on a real API server, by the commands of docs/cluster.md: kube-apiserver and etcd from the PATH, or from KUBEBUILDER_ASSETS as
 * other projects' tests have them. No pod runs, as there is no machine.
 */
import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { freePort } from "../helpers/free-port.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const assets = process.env["KUBEBUILDER_ASSETS"] ?? "";
const PATH = `${assets === "" ? "" : `${assets}:`}${process.env["PATH"] ?? ""}`;
const missing = ["kube-apiserver", "etcd", "kubectl"].find((name) => Bun.which(name, { PATH }) === null);

/** The block of the page that sets a cluster up. */
const [, commands] = /^## Kubernetes\n\n```sh\n([\s\S]*?)^```/m.exec(readFileSync("docs/cluster.md", "utf8"))!;

class ApiServer implements AsyncDisposable {
  readonly #folder = new TempFolder();
  readonly #children: Bun.Subprocess[] = [];

  static async start(): Promise<ApiServer> {
    const server = new ApiServer();
    const folder = server.#folder;
    const [clients, peers, port] = [freePort(), freePort(), freePort()];
    const [store, peer] = [`http://127.0.0.1:${clients}`, `http://127.0.0.1:${peers}`];
    server.#run(
      ...["etcd", "--data-dir", folder.file("etcd"), "--unsafe-no-fsync", "--listen-client-urls", store],
      ...["--advertise-client-urls", store, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer],
      ...["--initial-cluster", `default=${peer}`],
    );
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    writeFileSync(folder.file("accounts.key"), privateKey.export({ type: "pkcs8", format: "pem" }));
    writeFileSync(folder.file("tokens.csv"), "word,admin,1,system:masters\n");
    server.#run(
      ...["kube-apiserver", "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", String(port)],
      ...["--cert-dir", folder.file("certificates"), "--token-auth-file", folder.file("tokens.csv")],
      ...["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "RBAC"],
      ...["--service-account-key-file", folder.file("accounts.key")],
      ...["--service-account-signing-key-file", folder.file("accounts.key")],
      ...["--service-cluster-ip-range", "10.96.0.0/16"],
    );
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "k", cluster: { server: `https://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
      users: [{ name: "k", user: { token: "word" } }],
      contexts: [{ name: "k", context: { cluster: "k", user: "k" } }],
      "current-context": "k",
    };
    writeFileSync(folder.file("config"), JSON.stringify(config));
    while (server.sh("kubectl get --raw /readyz").code !== 0) {
      if (server.#children.some(({ exitCode }) => exitCode !== null)) throw new Error("kube-apiserver or etcd ended");
      await Bun.sleep(50);
    }
    return server;
  }

  #run(...command: string[]): void {
    this.#children.push(Bun.spawn(command, { env: { PATH }, stdio: ["ignore", "ignore", "ignore"] }));
  }

  /** Runs a line of a shell, with `kubectl` for this server, in the root of the repository. */
  sh(line: string, input = ""): { readonly code: number; readonly out: string; readonly err: string } {
    const env = { PATH, HOME: this.#folder.path, KUBECONFIG: this.#folder.file("config") };
    const { exitCode, stdout, stderr } = Bun.spawnSync(["sh", "-c", line], { env, stdin: Buffer.from(input) });
    return { code: exitCode, out: stdout.toString(), err: stderr.toString() };
  }

  file(name: string, text: string): string {
    writeFileSync(this.#folder.file(name), text);
    return this.#folder.file(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.toReversed()) {
      child.kill("SIGKILL");
      await child.exited;
    }
    this.#folder[Symbol.dispose]();
  }
}

describe.skipIf(missing !== undefined)(
  `deploy/kubernetes on an API server${missing ? `: ${missing} is missing` : ""}`,
  () => {
    test("is taken by the page's commands without a warning, again without a change, and its pods are safe enough for their namespace", async () => {
      await using server = await ApiServer.start();
      const secrets = server.file("troupe.env", "DATABASE_URL=postgres://db/troupe\nOPENAI_API_KEY=secret\n");
      const lines = commands!.trim().split("\n");
      expect(lines.map((line) => line.split(" ")[0])).toEqual(["kubectl", "kubectl", "kubectl", "kubectl"]);
      // The last one runs in a pod.
      for (const line of lines.slice(0, -1)) {
        expect(server.sh(line.replace("troupe.env", secrets))).toMatchObject({ code: 0, err: "" });
      }
      const again = server.sh("kubectl apply -k deploy/kubernetes");
      // kubectl writes a budget's selector anew each time.
      const changed = again.out.split("\n").filter((line) => !/ unchanged$|^$|^poddisruptionbudget/.test(line));
      expect({ ...again, changed }).toMatchObject({ code: 0, err: "", changed: [] });
      expect(server.sh("kubectl -n troupe create serviceaccount default").code).toBe(0);
      for (const name of ["troupe", "valkey"]) {
        const { out } = server.sh(`kubectl -n troupe get deployment ${name} -o json`);
        const { template } = (JSON.parse(out) as { spec: { template: object } }).spec;
        const pod = { apiVersion: "v1", kind: "Pod", ...template, metadata: { name } };
        const made = server.sh("kubectl -n troupe apply --dry-run=server -f -", JSON.stringify(pod));
        expect(made).toMatchObject({ code: 0, err: "", out: `pod/${name} created (server dry run)\n` });
      }
    });
  },
);
