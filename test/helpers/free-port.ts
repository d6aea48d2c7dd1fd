/** A port of 127.0.0.1 that is free. Somebody else may take it before it is used; then the start fails and says so. */
export function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  server.stop(true);
  return server.port;
}
