/** A page in a real Chromium without a window, spoken to by its DevTools protocol. */
import { existsSync, readFileSync } from "node:fs";
import { TempFolder } from "./temp-folder.ts";

const program = Bun.which("chromium") ?? Bun.which("chromium-browser");
/** Whether tests can have one; without it they are skipped by name. */
export const hasChromium = program !== null;

type Message = { readonly id?: number; readonly method?: string; readonly params?: never; readonly result?: never };
type Request = {
  readonly requestId: string;
  readonly loaderId: string;
  readonly request: { readonly url: string };
  readonly type: string;
};
type Response = {
  readonly requestId: string;
  readonly response: { readonly mimeType: string; readonly status: number };
};
type Evaluated<T> = {
  readonly result: { readonly value: T };
  readonly exceptionDetails?: { readonly exception?: { readonly description?: string }; readonly text: string };
};

const keyCodes = {
  ...{ Backspace: 8, Tab: 9, Enter: 13, Escape: 27, End: 35, Home: 36, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39 },
  ...{ ArrowDown: 40, a: 65, j: 74, k: 75 },
} as const;

export type Look = {
  readonly width: number;
  readonly height: number;
  readonly theme: "light" | "dark";
};
type Entry = { readonly entry: { readonly level: string; readonly source: string; readonly text: string } };

export class ChromiumPage implements AsyncDisposable {
  /** What the browser reports as errors: of scripts, of the page's policy, and answers that are errors. */
  readonly errors: string[] = [];
  /** The addresses that were asked for. */
  readonly requests: string[] = [];
  /** Requests of the present page under way; streams of events, which have no end, are not among them. */
  readonly #underWay = new Map<string, string>();
  /** What the browser calls the loading of the present page. */
  #loader: string | undefined;
  #world: number | undefined;
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
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"];
    // Pages of tests are short-lived: what other threads would compile and collect for a long run is work in vain.
    flags.push("--js-flags=--single-threaded-gc --no-concurrent-recompilation --max-lazy");
    const command = [program!, ...flags, `--user-data-dir=${folder.path}`, "about:blank"];
    const child = Bun.spawn(command, { stdout: "ignore", stderr: "ignore" });
    const portFile = folder.file("DevToolsActivePort");
    const readPort = () => (existsSync(portFile) ? readFileSync(portFile, "utf8").split("\n") : []);
    while (readPort().length < 2) {
      if (child.exitCode !== null) throw new Error(`Chromium ended with ${child.exitCode} before it listened`);
      await Bun.sleep(50);
    }
    const [port] = readPort();
    const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as Record<string, string>[];
    const socket = new WebSocket(targets.find(({ type }) => type === "page")!["webSocketDebuggerUrl"]!);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const page = new ChromiumPage(folder, child, socket);
    for (const domain of ["Page", "Runtime", "Log", "Network", "DOM"]) await page.#send(`${domain}.enable`);
    return page;
  }

  async go(url: string): Promise<void> {
    this.#world = undefined;
    await this.#send("Page.navigate", { url });
  }

  /** Runs a script in each page that is opened from now on, before its own. */
  async beforeEachPage(source: string): Promise<void> {
    await this.#send("Page.addScriptToEvaluateOnNewDocument", { source });
  }

  /** Shows the page as a window of this size and a system of this theme would. */
  async look({ width, height, theme }: Look): Promise<void> {
    const size = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.#send("Emulation.setDeviceMetricsOverride", size);
    const features = [{ name: "prefers-color-scheme", value: theme }];
    await this.#send("Emulation.setEmulatedMedia", { features });
  }

  /** @param zone such as Asia/Tokyo; empty: the system's */
  async setZone(zone: string): Promise<void> {
    await this.#send("Emulation.setTimezoneOverride", { timezoneId: zone });
  }

  async setOffline(offline: boolean): Promise<void> {
    const conditions = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
    await this.#send("Network.emulateNetworkConditions", { offline, ...conditions });
  }

  /** Waits until nothing was asked for during a moment; rejects after half a minute or more. */
  async settle(): Promise<void> {
    let quiet = 0;
    for (let tries = 0; tries < 600 && quiet < 4; tries += 1) {
      await Bun.sleep(50);
      quiet = this.#underWay.size === 0 ? quiet + 1 : 0;
    }
    if (quiet < 4) throw new Error(`never answered: ${[...this.#underWay.values()].join(" ")}`);
  }

  /** @param full all that can be scrolled to, too @returns a PNG file's bytes */
  async screenshot({ full = false } = {}): Promise<Uint8Array> {
    const { result } = await this.#send("Page.captureScreenshot", { format: "png", captureBeyondViewport: full });
    return Buffer.from((result as unknown as { readonly data: string }).data, "base64");
  }

  /**
   * Like `read`, in a world that shares the page's elements but neither its names nor its policy: tools of the test run there.
   * @param source loaded once into a page, before the expression
   */
  async readApart<T>(source: string, expression: string): Promise<T> {
    if (this.#world === undefined) {
      const { result: tree } = await this.#send("Page.getFrameTree");
      const { frameTree } = tree as unknown as { readonly frameTree: { readonly frame: { readonly id: string } } };
      const { result } = await this.#send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
      this.#world = (result as unknown as { readonly executionContextId: number }).executionContextId;
      await this.#send("Runtime.evaluate", { expression: source, contextId: this.#world });
    }
    const asked = { expression, contextId: this.#world, awaitPromise: true, returnByValue: true };
    const { result } = await this.#send("Runtime.evaluate", asked);
    const { result: value, exceptionDetails: fault } = result as unknown as Evaluated<T>;
    if (fault !== undefined) throw new Error(fault.exception?.description ?? fault.text);
    return value.value;
  }

  /** @returns names and classes of the elements that listen to a kind of event, such as `TR bad` */
  async listeners(type: string): Promise<string[]> {
    const { result: evaluated } = await this.#send("Runtime.evaluate", { expression: "document" });
    const { objectId } = (evaluated as unknown as { readonly result: { readonly objectId: string } }).result;
    const { result } = await this.#send("DOMDebugger.getEventListeners", { objectId, depth: -1, pierce: false });
    const { listeners } = result as unknown as {
      readonly listeners: readonly { readonly type: string; readonly backendNodeId?: number }[];
    };
    const names: string[] = [];
    for (const { type: own, backendNodeId } of listeners) {
      if (own !== type || backendNodeId === undefined) continue;
      const { result: described } = await this.#send("DOM.describeNode", { backendNodeId });
      const node = (
        described as unknown as
          | { readonly node?: { readonly nodeName: string; readonly attributes?: readonly string[] } }
          | undefined
      )?.node;
      const { nodeName, attributes = [] } = node ?? {};
      const classes = attributes[attributes.indexOf("class") + 1 || attributes.length] ?? "";
      if (nodeName !== undefined) names.push(`${nodeName} ${classes}`.trim());
    }
    return names;
  }

  /** @returns the value of an expression in the page, or of its promise */
  async read<T>(expression: string): Promise<T> {
    const { result } = await this.#send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return (result as unknown as { readonly result: { readonly value: T } }).result.value;
  }

  /** Waits until an expression is true in the page; rejects after half a minute or more. */
  async until(expression: string): Promise<void> {
    for (let tries = 0; tries < 600; tries += 1) {
      // A page that is being left answers nothing.
      if (await this.read(`Boolean(${expression})`).catch(() => false)) return;
      await Bun.sleep(50);
    }
    throw new Error(`never true: ${expression}; the page has: ${await this.read<string>("document.body.innerText")}`);
  }

  /** Types into what has the focus. */
  async type(text: string): Promise<void> {
    await this.#send("Input.insertText", { text });
  }

  /**
   * Presses and lets go of the mouse, as a hand does: whatever lies on top there gets it. Nobody clicks what moves: it is waited for.
   * @param element an expression @param from its left upper corner, in pixels; absent: the middle of what is seen of it
   */
  async click(element: string, from?: { readonly x: number; readonly y: number }): Promise<void> {
    const place = await this.read<[number, number] | null>(`(async () => {
      const find = () => {
        const one = ${element};
        one?.scrollIntoView({ block: "nearest" });
        return one?.getBoundingClientRect();
      };
      const words = (at) => at && [at.left, at.top, at.width, at.height].join();
      // What is wider than the part that scrolls it is clicked where it is seen.
      const middle = (at) => {
        let [left, right] = [Math.max(0, at.left), Math.min(innerWidth, at.right)];
        for (let around = (${element})?.parentElement; around; around = around.parentElement) {
          if (getComputedStyle(around).overflowX === "visible") continue;
          const bounds = around.getBoundingClientRect();
          [left, right] = [Math.max(left, bounds.left), Math.min(right, bounds.right)];
        }
        return right > left ? (left + right) / 2 - at.left : at.width / 2;
      };
      for (let tries = 0; tries < 100; tries += 1) {
        const before = find();
        await new Promise((resolve) => setTimeout(resolve, 30));
        const at = find();
        if (before && words(before) === words(at))
          return [at.left + ${from?.x ?? "middle(at)"}, at.top + ${from?.y ?? "at.height / 2"}];
      }
      return null;
    })()`);
    if (!place) throw new Error(`not there, or never at rest: ${element}`);
    const [x, y] = place;
    for (const type of ["mouseMoved", "mousePressed", "mouseReleased"])
      await this.#send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  }

  /** Presses the key of one letter. */
  async pressLetter(letter: string): Promise<void> {
    for (const type of ["keyDown", "keyUp"]) {
      const text = type === "keyDown" ? { text: letter } : {};
      await this.#send("Input.dispatchKeyEvent", { type, key: letter, ...text });
    }
  }

  /** Leads the mouse to the middle of an element, and leaves it there. */
  async hover(element: string): Promise<void> {
    const [x, y] = await this.read<[number, number]>(`(() => {
      const one = ${element};
      one.scrollIntoView({ block: "nearest" });
      const { left, top, width, height } = one.getBoundingClientRect();
      return [left + width / 2, top + height / 2];
    })()`);
    await this.#send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
  }

  /** @param held a key that is held meanwhile */
  async press(key: keyof typeof keyCodes, held?: "Control"): Promise<void> {
    const windowsVirtualKeyCode = keyCodes[key];
    for (const type of ["keyDown", "keyUp"]) {
      const text = key === "Enter" && type === "keyDown" ? { text: "\r" } : {};
      await this.#send("Input.dispatchKeyEvent", {
        ...{ type, key, code: key.length === 1 ? `Key${key.toUpperCase()}` : key, windowsVirtualKeyCode },
        modifiers: held ? 2 : 0,
        // What the system makes of it, as the browser alone has no such shortcut.
        ...(key === "a" && held && { commands: ["selectAll"] }),
        ...(key === "Home" && held && { commands: ["moveToBeginningOfDocument"] }),
        ...text,
      });
    }
  }

  /** Clicks into a field and types in place of what stands there. Who finds that it moved away under the mouse clicks again. */
  async write(field: string, text: string): Promise<void> {
    await this.click(field);
    for (let tries = 0; tries < 20 && !(await this.read(`document.activeElement === ${field}`)); tries += 1)
      await this.click(field);
    await this.press("a", "Control");
    if (text === "") await this.press("Backspace");
    else await this.type(text);
  }

  /** Chooses of a list by the arrow keys. @param value of the option */
  async choose(list: string, value: string): Promise<void> {
    const steps = await this.read<number>(`(() => {
      const list = ${list};
      list.scrollIntoView({ block: "nearest" });
      list.focus();
      return [...list.options].findIndex((one) => one.value === ${JSON.stringify(value)}) - list.selectedIndex;
    })()`);
    for (let step = 0; step < Math.abs(steps); step += 1) await this.press(steps > 0 ? "ArrowDown" : "ArrowUp");
  }

  #take({ id, method, params, ...rest }: Message): void {
    if (id !== undefined) this.#waiting.get(id)?.({ id, ...rest });
    if (method === "Log.entryAdded") {
      const { level, source, text } = (params as unknown as Entry).entry;
      if (level === "error") this.errors.push(`${source}: ${text}`);
    }
    if (method === "Network.requestWillBeSent") {
      const { requestId, loaderId, request, type } = params as unknown as Request;
      this.requests.push(request.url);
      // What the page before it asked for may end without a word, and be told of by its own process after this one began.
      if (type === "Document") {
        this.#underWay.clear();
        this.#loader = loaderId;
      }
      if (loaderId === this.#loader) this.#underWay.set(requestId, request.url);
    }
    if (method === "Network.responseReceived") {
      const { requestId, response } = params as unknown as Response;
      // Streams have no end, and the body of an answer that is small or an error may be left unread.
      const isUnread = response.mimeType === "text/event-stream" || response.status >= 400;
      setTimeout(() => this.#underWay.delete(requestId), isUnread ? 0 : 500);
    }
    if (method === "Network.loadingFinished" || method === "Network.loadingFailed")
      this.#underWay.delete((params as unknown as Request).requestId);
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
