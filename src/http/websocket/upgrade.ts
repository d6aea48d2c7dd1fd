/** The handshake of Responses over a WebSocket, and the server's handlers of its connections. */

import { admit } from "../../call/admit/admit.ts";
import type { Host, RequestContext, ServedRoute, ServerHandle } from "../../call/context.ts";
import { jsonAnswer } from "../../call/relay/relay.ts";
import type { Services } from "../../call/services.ts";
import type { SurfaceName } from "../../config/config.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Route } from "../routes.ts";
import { answerFailure, asksForWebSocket, checkRequest, openContext, serve } from "../serve.ts";
import { type Socket, SocketConnection } from "./connection.ts";

type UpgradingServer = ServerHandle & {
  upgrade(
    request: Request,
    options: { readonly data: SocketConnection; readonly headers: Record<string, string> },
  ): boolean;
};

/** Answers a `GET` of the route: the connection goes on as a WebSocket where that is undefined. */
export type SocketUpgrade = (request: Request, server: ServerHandle) => Promise<Response | undefined>;

/**
 * @param create the route of Responses, which answers what comes over the connection
 * @param refuse answers what asks for no WebSocket, and all where they are turned off
 */
export function upgradeAt(
  host: Host,
  surface: SurfaceName,
  create: Route,
  served: (request: Request) => ServedRoute,
  refuse: (request: Request, server: ServerHandle) => Promise<Response>,
): SocketUpgrade {
  return async (request, server) => {
    const { services } = host;
    const { enabled, maxConnections, maxConnectionsPerKey } = services.live.config.websockets;
    const isAsked = asksForWebSocket(request);
    // A proxy in between that does not upgrade leaves the other headers of the handshake.
    if (!isAsked && !request.headers.has("sec-websocket-key")) return refuse(request, server);
    const route = served(request);
    const context = openContext(host, { request, server }, route);
    try {
      await checkRequest(host, context, true);
      const { keyId } = await admit(services, context, surface, { mayPreview: true });
      if (!enabled || !isAsked) throw ApiError.websocketsUnsupported(426);
      if (host.draining) throw ApiError.unavailable("draining", "The server is shutting down.");
      if (host.sockets.size >= maxConnections) throw tooMany("Too many WebSockets are open");
      const own = [...host.sockets].filter((one) => one.keyId === keyId);
      if (own.length >= maxConnectionsPerKey) throw tooMany("Too many WebSockets of this key are open");
      const connection = new SocketConnection(
        host,
        keyId,
        request,
        server.requestIP(request)?.address,
        (sent, handle, warmUp) =>
          serve(
            host,
            { request: sent, server: handle },
            route,
            warmUp === undefined ? create.run : (_, own) => warmedUp(services, own, surface, warmUp),
          ),
      );
      if (!(server as UpgradingServer).upgrade(request, { data: connection, headers: context.headers }))
        throw ApiError.websocketsUnsupported(426);
      context.finish(101);
      return undefined;
    } catch (error) {
      return answerFailure(host, context, error);
    }
  };
}

const tooMany = (what: string) =>
  ApiError.unavailable("overloaded", `${what}. Retry in a moment, or use HTTP.`, { retryAfterSeconds: 1 });

/** Answers a turn that asks nothing of a model, for callers who may ask. */
async function warmedUp(services: Services, context: RequestContext, surface: SurfaceName, warmUp: () => JsonObject) {
  await admit(services, context, surface, { mayPreview: true });
  return jsonAnswer(warmUp());
}

/** Bytes that may wait for a client: a connection stops far earlier, but for one event that is larger by itself. */
const maxBackpressure = 2 ** 30;

/** @param bodyBytes the most bytes of one message; a larger one closes its connection */
export const webSocketHandlers = (bodyBytes: number) => ({
  maxPayloadLength: bodyBytes,
  backpressureLimit: maxBackpressure,
  // Clients that answer no ping are gone.
  idleTimeout: 120,
  sendPings: true,
  perMessageDeflate: false,
  open: (socket: Socket) => socket.data.open(socket),
  message: (socket: Socket, message: string | Buffer) => socket.data.message(message),
  drain: (socket: Socket) => socket.data.drain(),
  close: (socket: Socket) => socket.data.close(),
});
