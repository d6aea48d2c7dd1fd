import { dlopen, ptr } from "bun:ffi";
import { describe, expect, test } from "bun:test";
import { openLibc } from "../../../src/lib/linux/libc.ts";
import { Notifier, socketAddress } from "../../../src/lib/linux/sd-notify.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/** A service manager's end of the socket. */
class Receiver implements Disposable {
  readonly #calls = dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
    recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
    close: { args: ["i32"], returns: "i32" },
  }).symbols;
  readonly #fd = this.#calls.socket(1, 2, 0);

  constructor(path: string) {
    const address = socketAddress(path);
    if (this.#calls.bind(this.#fd, ptr(address), address.length) !== 0) throw new Error(`can't bind ${path}`);
  }

  /** What has come; a message sent is there at once. */
  get messages(): string[] {
    const dontWait = 0x40;
    const found: string[] = [];
    const buffer = new Uint8Array(4096);
    for (;;) {
      const size = Number(this.#calls.recv(this.#fd, ptr(buffer), 4096n, dontWait));
      if (size < 0) return found;
      found.push(Buffer.from(buffer.subarray(0, size)).toString());
    }
  }

  [Symbol.dispose](): void {
    this.#calls.close(this.#fd);
  }
}

describe.skipIf(openLibc() === undefined)("a service manager that listens", () => {
  test.each(["a file", "an abstract name"])("hears of every step, at %s", (kind) => {
    using folder = new TempFolder();
    const path = kind === "a file" ? folder.file("notify") : `@troupe-test-${process.pid}`;
    using manager = new Receiver(path);
    const notifier = new Notifier({ NOTIFY_SOCKET: path }, 1);
    notifier.ready("Serving at http://127.0.0.1:8080");
    notifier.status("Busy");
    notifier.stopping();
    notifier.mainProcess(4711);
    expect(manager.messages).toEqual([
      "READY=1\nSTATUS=Serving at http://127.0.0.1:8080",
      "STATUS=Busy",
      "STOPPING=1\nSTATUS=Draining",
      "MAINPID=4711",
    ]);
  });

  test("a reload carries the monotonic time, which moves on", () => {
    using folder = new TempFolder();
    using manager = new Receiver(folder.file("notify"));
    const notifier = new Notifier({ NOTIFY_SOCKET: folder.file("notify") }, 1);
    notifier.reloading();
    notifier.reloading();
    const times = manager.messages.map((text) => BigInt(/^RELOADING=1\nMONOTONIC_USEC=(\d+)$/.exec(text)![1]!));
    expect(times[0]! > 0n).toBe(true);
    expect(times[1]! >= times[0]!).toBe(true);
  });

  test("signs of life come twice in the watchdog's time, until they are called off", () => {
    using folder = new TempFolder();
    using manager = new Receiver(folder.file("notify"));
    const clock = new ManualClock();
    const env = { NOTIFY_SOCKET: folder.file("notify"), WATCHDOG_USEC: "30000000", WATCHDOG_PID: "42" };
    const stop = new Notifier(env, 42).keepAlive(clock);
    clock.advance(14_999);
    expect(manager.messages).toEqual([]);
    clock.advance(15_001);
    expect(manager.messages).toEqual(["WATCHDOG=1", "WATCHDOG=1"]);
    stop();
    clock.advance(60_000);
    expect(manager.messages).toEqual([]);
  });

  test("a watchdog meant for another process is left alone", () => {
    using folder = new TempFolder();
    using manager = new Receiver(folder.file("notify"));
    const env = { NOTIFY_SOCKET: folder.file("notify"), WATCHDOG_USEC: "30000000", WATCHDOG_PID: "42" };
    const clock = new ManualClock();
    new Notifier(env, 43).keepAlive(clock);
    clock.advance(60_000);
    expect(manager.messages).toEqual([]);
  });
});

test("without a service manager, or with one that is gone, nothing happens", () => {
  for (const env of [{}, { NOTIFY_SOCKET: "" }, { NOTIFY_SOCKET: "/nowhere/at/all" }]) {
    const notifier = new Notifier(env, 1);
    notifier.ready("x");
    const clock = new ManualClock();
    notifier.keepAlive(clock);
    clock.advance(60_000);
  }
});
