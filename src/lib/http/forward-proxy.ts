/** True if outgoing calls go through a forward proxy: https://everything.curl.dev/usingcurl/proxies/env.html */
export function isBehindForwardProxy(env: Readonly<Record<string, string | undefined>>): boolean {
  return ["HTTP_PROXY", "HTTPS_PROXY"].some((name) => env[name] || env[name.toLowerCase()]);
}
