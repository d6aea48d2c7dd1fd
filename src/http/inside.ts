/** Calls of models that this server makes itself for somebody whom it let in, as for tests of personas: with the limits, budgets and ledger of every call. */
import { admit } from "../call/admit/admit.ts";
import { answerCall } from "../call/call.ts";
import type { Host, ServedRoute } from "../call/context.ts";
import type { InsideCall } from "../call/inside-call.ts";
import { chat } from "../protocols/chat/chat.ts";
import { answerFailure, openContext } from "./serve.ts";

/** @returns the answer or the error, as a client gets it */
export async function completeInside(host: Host, call: InsideCall): Promise<Response> {
  const { surface, path, caller, permission, body, client, signal, services = host.services } = call;
  const headers = { "content-type": "application/json", "user-agent": client };
  const request = new Request(`http://localhost${path}`, { method: "POST", headers, body, signal });
  const route: ServedRoute = { area: surface.name, path, protocol: chat, format: chat.name };
  const context = openContext(host, { request, server: null }, route);
  try {
    await admit(host.services, context, surface.name, { permission }, caller);
    return await answerCall(services, context, surface, chat, caller);
  } catch (error) {
    return answerFailure(host, context, error);
  }
}
