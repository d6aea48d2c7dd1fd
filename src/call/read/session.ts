/** The conversation as a client's headers name it. */
import { words } from "../../lib/text/words.ts";

/**
 * Headers of coding agents that name it. Sources: Codex, https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/requests/headers.rs;
 * Claude Code, https://code.claude.com/docs/en/llm-gateway-protocol; opencode,
 * https://github.com/sst/opencode/blob/dev/packages/opencode/src/session/llm/request.ts; several of them,
 * https://docs.merge.dev/merge-gateway/routing/cache-aware-routing
 */
const headers = words(`
  x-claude-code-session-id session_id session-id conversation_id x-session-id x-session-affinity
  x-opencode-session
`);

/** @returns the conversation as the client's headers name it */
export function sessionOf(request: Request): string | undefined {
  for (const name of headers) {
    const value = request.headers.get(name);
    if (value) return value;
  }
  return undefined;
}
