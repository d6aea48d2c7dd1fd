import type { UpstreamRequest } from "../../src/providers/provider.ts";

/** What goes over the wire. */
export function textOfBody(body: UpstreamRequest["body"] = ""): string {
  const pieces = typeof body === "string" || body instanceof Uint8Array ? [body] : body;
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece))).toString();
}
