/** A real terminal, by tmux, in which a test types and reads the screen. */
import { testExecutable } from "./executable.ts";

export const hasTmux = Bun.which("tmux") !== null;

let opened = 0;

const sayingItsEnd = ["sh", "-c", '"$@"; printf "\\nended: %s\\n" $?; exec cat', "sh"];

export class TmuxTerminal implements AsyncDisposable {
  readonly #socket: string;

  private constructor(socket: string) {
    this.#socket = socket;
  }

  /**
   * Runs a command line of this program. When it has ended the screen stays, and `ended: <code>` stands below: a shell writes it, as tmux
   * itself misses now and then that a process has ended.
   */
  static async open(
    words: readonly string[],
    {
      cwd,
      env,
      columns = 80,
      rows = 24,
    }: { cwd: string; env: Record<string, string>; columns?: number; rows?: number },
  ): Promise<TmuxTerminal> {
    opened += 1;
    const terminal = new TmuxTerminal(`troupe-test-${process.pid}-${opened}`);
    const variables = Object.entries({ PATH: process.env["PATH"]!, LC_ALL: "C.UTF-8", ...env });
    const command = ["env", "-i", "TERM=tmux-256color", ...variables.map(([name, value]) => `${name}=${value}`)];
    const size = ["-x", String(columns), "-y", String(rows)];
    await terminal.#tmux(
      ...["-u", "-f", "/dev/null", "new-session", "-d", ...size, "-c", cwd, "cat"],
      ...[";", "set-option", "-g", "remain-on-exit", "on"],
      ...[";", "respawn-window", "-k", "-c", cwd, ...sayingItsEnd, ...command, await testExecutable(), ...words],
    );
    return terminal;
  }

  async #tmux(...words: string[]): Promise<string> {
    const ran = Bun.spawn(["tmux", "-L", this.#socket, ...words], { stdout: "pipe", stderr: "pipe" });
    const [out, error, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited]);
    if (code !== 0) throw new Error(`tmux ${words.join(" ")}: ${error}`);
    return out;
  }

  /** Types a text. */
  async type(text: string): Promise<void> {
    await this.#tmux("send-keys", "-l", text);
  }

  /** @param names as tmux has them: Enter, Up, C-c */
  async press(...names: string[]): Promise<void> {
    await this.#tmux("send-keys", ...names);
  }

  /** Pastes as a terminal does. */
  async paste(text: string): Promise<void> {
    await this.#tmux("set-buffer", text, ";", "paste-buffer", "-p", "-r");
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** What is on the screen, and above it; lines without spaces at their ends. @param styles with their escape sequences */
  screen(styles = false): Promise<string> {
    return this.#tmux("capture-pane", "-p", "-S", "-500", ...(styles ? ["-e"] : []));
  }

  /** Resolves with the screen once it fits. */
  async seen(pattern: RegExp | string): Promise<string> {
    for (;;) {
      const screen = await this.screen();
      if (typeof pattern === "string" ? screen.includes(pattern) : pattern.test(screen)) return screen;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tmux("kill-server").catch(() => {});
  }
}
