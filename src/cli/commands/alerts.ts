/** `troupe alerts`: whether messages to operators arrive. */
import { systemClock } from "../../lib/time/clock.ts";
import { sendWebhook } from "../../observability/alerts/webhook.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";

/** Sends a message to each address of the configuration, as a server would. */
export function testAlerts(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  return withConfig(context, async ({ alerts }) => {
    if (alerts === undefined) throw new CommandError("The configuration has no 'alerts': no messages are sent.");
    const at = systemClock.now();
    const body = JSON.stringify({ type: "alerts.test", timestamp: new Date(at).toISOString(), data: {} });
    const sent: { origin: string; delivered: boolean; failure?: string }[] = [];
    for (const url of alerts.urls) {
      const failure = await sendWebhook(url, { id: `alert_${systemClock.newId()}`, body }, alerts.secret, at);
      const { origin } = new URL(url);
      sent.push({ origin, delivered: failure === undefined, ...(failure !== undefined && { failure }) });
      if (!json)
        context.io.stdout.write(
          failure === undefined ? `${origin}: delivered\n` : `${origin}: not delivered: ${failure}\n`,
        );
    }
    if (json) printJson(context.io, sent);
    return sent.every(({ delivered }) => delivered) ? 0 : 1;
  });
}
