/** The way of a node to a modelled server of live streams. */
import type { LiveNews, LiveStreams } from "../../src/store/live-streams.ts";
import { liveTimes } from "../../src/store/live-streams.ts";
import { StorageError } from "../../src/store/storage-error.ts";
import type { ModelledStreams } from "../helpers/modelled-streams.ts";
import type { Machine } from "./machine.ts";
import type { Network } from "./network.ts";
import type { World } from "./world.ts";

/** Of each question to it. */
const deadlineMs = 500;

export function streamClient(world: World, network: Network, server: ModelledStreams, machine: Machine): LiveStreams {
  const lost = () => new StorageError("away", "model", "The model is away.");
  const ask = <T>(work: () => T): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const cancel = machine.setTimer(deadlineMs, () => reject(lost()));
    network.ask(
      machine,
      () => ({ answer: work() }),
      (answered) => {
        cancel();
        if (answered === undefined) reject(lost());
        else resolve(answered.answer);
      },
    );
    return promise;
  };
  return {
    place: "model",
    listen: (node, owner) => ask(() => server.listen(node, owner)),
    ask: (stream, owner, wakes) => ask(() => server.ask(stream, owner, wakes)),
    begin: (stream, generation, headers) => ask(() => server.begin(stream, generation, headers)),
    append: (stream, { firstId, count, text }, floor) => ask(() => server.append(stream, firstId, count, text, floor)),
    end: (stream, events) => ask(() => server.end(stream, events)),
    read: (stream, after) => ask(() => server.read(stream, after)),
    wait: (node, inbox, streams) => {
      const { promise, resolve, reject } = Promise.withResolvers<LiveNews>();
      const cancel = machine.setTimer(liveTimes.waitMs + deadlineMs, () => reject(lost()));
      const told = (news: LiveNews) =>
        network.ask(
          machine,
          () => news,
          () => {
            cancel();
            resolve(news);
          },
        );
      world.after(world.between(0, 2), () => {
        if (machine.isCutFrom("coordination") || !network.isReachable) return;
        world.after(liveTimes.waitMs, server.wait(node, inbox, streams, told));
      });
      return promise;
    },
    close: async () => {},
  };
}
