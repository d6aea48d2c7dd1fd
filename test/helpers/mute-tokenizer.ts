/** Preloaded into a process: the thread that counts tokens never answers. */
const Thread = globalThis.Worker;

globalThis.Worker = class extends Thread {
  readonly #isMute: boolean;

  constructor(url: string | URL, options?: WorkerOptions) {
    super(url, options);
    this.#isMute = String(url).includes("token-worker");
  }

  override postMessage(message: unknown): void {
    if (!this.#isMute) super.postMessage(message);
  }
} as typeof Worker;
