/** Asks for a WebSocket and tells how that was answered: a client's own API hides the status. */
import { request as plain } from "node:http";
import { request as secure } from "node:https";

/** @returns the status of the answer, 101 where it opened; undefined: there was none in time. Never rejects */
export function openSocket(
  url: string,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<number | undefined> {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const asking = (url.startsWith("https:") ? secure : plain)(url, {
    headers: {
      ...headers,
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64"),
    },
  });
  const timer = setTimeout(() => asking.destroy(new Error("no answer in time")), timeoutMs);
  const end = (status?: number) => {
    clearTimeout(timer);
    resolve(status);
  };
  asking.on("upgrade", ({ statusCode }, socket) => {
    socket.destroy();
    end(statusCode ?? 101);
  });
  asking.on("response", (answer) => {
    answer.resume();
    asking.destroy();
    end(answer.statusCode);
  });
  asking.on("error", () => end());
  asking.end();
  return promise;
}
