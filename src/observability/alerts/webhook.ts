/**
 * Sends a message as a webhook, signed as Standard Webhooks does it: the receiver finds who sent it, when, and whether it is a message that
 * it has. Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { createHmac } from "node:crypto";

type WebhookMessage = { readonly id: string; readonly body: string };

const prefix = "whsec_";

/** @returns undefined where a secret with the prefix is no base64 */
function signingKey(secret: string): Buffer | undefined {
  if (!secret.startsWith(prefix)) return Buffer.from(secret);
  const encoded = secret.slice(prefix.length);
  return /^[A-Za-z0-9+/]+={0,2}$/.test(encoded) ? Buffer.from(encoded, "base64") : undefined;
}

/** @param at when it is sent, in Unix milliseconds */
export function signedHeaders({ id, body }: WebhookMessage, secret: string, at: number): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000));
  const signature = createHmac("sha256", signingKey(secret) ?? "")
    .update(`${id}.${timestamp}.${body}`)
    .digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${signature}`,
    "user-agent": "troupe",
  };
}

const timeoutMs = 10_000;

/** @returns undefined where it was taken; else why it was not, in words without the address. Never rejects */
export async function sendWebhook(
  url: string,
  message: WebhookMessage,
  secret: string,
  at: number,
): Promise<string | undefined> {
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: signedHeaders(message, secret, at),
      body: message.body,
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    await answer.body?.cancel();
    return answer.ok ? undefined : `it answered with the status ${answer.status}`;
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string };
    return name === "TimeoutError"
      ? "it did not answer in time"
      : `it can't be reached (${code ?? name ?? "no reason"})`;
  }
}
