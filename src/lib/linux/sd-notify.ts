/**
 * Notifies systemd of the server's state (sd_notify); does nothing where there is no service manager.
 * Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
 */
import { type Clock, repeat } from "../time/clock.ts";
import { type Libc, openLibc, ptr } from "./libc.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const unixFamily = 1;
const datagram = 2;
const closeOnExec = 0o2000000;
const monotonicClock = 1;
const dontWait = 0x40;

export class Notifier {
  readonly #send: (text: string) => void;
  readonly #monotonicMicros: () => bigint;
  /** Milliseconds between two watchdog pings; undefined: no watchdog. */
  readonly #watchdogMs: number | undefined;

  /** @param processId this process's own */
  constructor(env: Environment, processId: number) {
    const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: micros, WATCHDOG_PID: watched } = env;
    const libc = socket ? openLibc() : undefined;
    this.#send = libc === undefined ? () => {} : (text) => send(libc, socket!, text);
    this.#monotonicMicros = libc === undefined ? () => 0n : () => monotonicMicros(libc);
    const isWatched = libc !== undefined && Number(micros) > 0 && (!watched || Number(watched) === processId);
    // Twice in the time given, as sd_watchdog_enabled(3) advises.
    this.#watchdogMs = isWatched ? Number(micros) / 1000 / 2 : undefined;
  }

  /** @param status one line for `systemctl status` */
  ready(status: string): void {
    this.#send(`READY=1\nSTATUS=${status}`);
  }

  status(status: string): void {
    this.#send(`STATUS=${status}`);
  }

  /** To be followed by `ready`. */
  reloading(): void {
    this.#send(`RELOADING=1\nMONOTONIC_USEC=${this.#monotonicMicros()}`);
  }

  stopping(): void {
    this.#send("STOPPING=1\nSTATUS=Draining");
  }

  /** Names the new main process after an upgrade. */
  mainProcess(id: number): void {
    this.#send(`MAINPID=${id}`);
  }

  /**
   * Sends watchdog pings from the event loop that serves requests, so that a server that hangs sends none.
   * @returns how to stop
   */
  keepAlive(clock: Clock): () => void {
    return this.#watchdogMs === undefined ? () => {} : repeat(clock, this.#watchdogMs, () => this.#send("WATCHDOG=1"));
  }
}

/** Best effort: nothing depends on it. */
function send(libc: Libc, socket: string, text: string): void {
  const fd = libc.socket(unixFamily, datagram | closeOnExec, 0);
  if (fd < 0) return;
  const address = socketAddress(socket);
  const message = Buffer.from(text);
  libc.sendto(fd, ptr(message), BigInt(message.length), dontWait, ptr(address), address.length);
  libc.close(fd);
}

/** A leading @ stands for the zero byte of Linux's abstract names. Source: unix(7) */
export function socketAddress(path: string): Uint8Array {
  const name = Buffer.from(path);
  if (path.startsWith("@")) name[0] = 0;
  const address = Buffer.alloc(2 + name.length);
  address.writeUInt16LE(unixFamily, 0);
  name.copy(address, 2);
  return address;
}

function monotonicMicros(libc: Libc): bigint {
  const time = new BigInt64Array(2);
  libc.clock_gettime(monotonicClock, ptr(time));
  return time[0]! * 1_000_000n + time[1]! / 1000n;
}
