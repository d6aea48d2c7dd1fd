/** A page in a real Chromium without a window, spoken to by its DevTools protocol. */
import { existsSync, readFileSync } from "node:fs";
import { TempFolder } from "./temp-folder.ts";

const program = Bun.which("chromium") ?? Bun.which("chromium-browser");
/** Whether tests can have one; without it they are skipped by name. */
export const hasChromium = program !== null;

type Message = { readonly id?: number; readonly method?: string; readonly params?: never; readonly result?: never };
type Entry = { readonly entry: { readonly level: string; readonly source: string; readonly text: string } };

export class ChromiumPage implements AsyncDisposable {
  /** What the browser reports as errors: of scripts, of the page's policy, and answers that are errors. */
  readonly errors: string[] = [];
  readonly #folder: TempFolder;
  readonly #child: Bun.Subprocess;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #sent = 0;

  private constructor(folder: TempFolder, child: Bun.Subprocess, socket: WebSocket) {
    this.#folder = folder;
    this.#child = child;
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#take(JSON.parse(String(data)) as Message));
  }

  static async open(): Promise<ChromiumPage> {
    const folder = new TempFolder();
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
    const command = [program!, ...flags, `--user-data-dir=${folder.path}`, "about:blank"];
    const child = Bun.spawn(command, { stdout: "ignore", stderr: "ignore" });
    const portFile = folder.file("DevToolsActivePort");
    const readPort = () => (existsSync(portFile) ? readFileSync(portFile, "utf8").split("\n") : []);
    while (readPort().length < 2) await Bun.sleep(50);
    const [port] = readPort();
    const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as Record<string, string>[];
    const socket = new WebSocket(targets.find(({ type }) => type === "page")!["webSocketDebuggerUrl"]!);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const page = new ChromiumPage(folder, child, socket);
    for (const domain of ["Page", "Runtime", "Log"]) await page.#send(`${domain}.enable`);
    return page;
  }

  async go(url: string): Promise<void> {
    await this.#send("Page.navigate", { url });
  }

  /** @returns the value of an expression in the page, or of its promise */
  async read<T>(expression: string): Promise<T> {
    const { result } = await this.#send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return (result as unknown as { readonly result: { readonly value: T } }).result.value;
  }

  /** Waits until an expression is true in the page; rejects after ten seconds. */
  async until(expression: string): Promise<void> {
    for (let tries = 0; tries < 200; tries += 1) {
      if (await this.read(`Boolean(${expression})`)) return;
      await Bun.sleep(50);
    }
    throw new Error(`never true: ${expression}; the page has: ${await this.read<string>("document.body.innerText")}`);
  }

  /** Types into what has the focus. */
  async type(text: string): Promise<void> {
    await this.#send("Input.insertText", { text });
  }

  async press(key: "Enter" | "Escape" | "Tab"): Promise<void> {
    const windowsVirtualKeyCode = { Enter: 13, Escape: 27, Tab: 9 }[key];
    for (const type of ["keyDown", "keyUp"]) {
      const text = key === "Enter" && type === "keyDown" ? { text: "\r" } : {};
      await this.#send("Input.dispatchKeyEvent", { type, key, code: key, windowsVirtualKeyCode, ...text });
    }
  }

  #take({ id, method, params, ...rest }: Message): void {
    if (id !== undefined) this.#waiting.get(id)?.({ id, ...rest });
    if (method === "Log.entryAdded") {
      const { level, source, text } = (params as unknown as Entry).entry;
      if (level === "error") this.errors.push(`${source}: ${text}`);
    }
    if (method === "Runtime.exceptionThrown") this.errors.push(JSON.stringify(params));
  }

  #send(method: string, params: object = {}): Promise<Message> {
    this.#sent += 1;
    const id = this.#sent;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    this.#child.kill();
    await this.#child.exited;
    this.#folder[Symbol.dispose]();
  }
}
