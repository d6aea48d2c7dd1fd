/** The open endpoints: health, version and metrics. */
import type { WholeAnswer } from "../services/answer.ts";
import type { Services } from "../services/services.ts";
import { showAnonymousLimit } from "./admit.ts";
import { describeOperation } from "./describe.ts";
import type { Exchange } from "./exchange.ts";
import { jsonAnswer, textAnswer } from "./respond.ts";
import type { Route } from "./routes.ts";

type Check = { readonly status: "ok" | "failing"; readonly message?: string };

/** Storage lost is the one fault that makes the service unhealthy: without it no key can be trusted to be current. */
function health(services: Services): WholeAnswer {
  const storage = checkStorage(services);
  const providers = services.live.accounts.list().filter(({ provider }) => provider.kind === "remote").length;
  const checks = {
    storage,
    personas: { status: services.personaFaults() > 0 ? "failing" : "ok", loaded: services.personas.list().length },
    providers: { status: "ok", set_up: providers },
  };
  const ok = Object.values(checks).every(({ status }) => status === "ok");
  const body = {
    status: ok ? "ok" : "degraded",
    version: services.build.version,
    uptime_seconds: Math.floor((services.clock.monotonic() - services.startedAt) / 1000),
    checks,
  };
  return jsonAnswer(body, storage.status === "ok" ? 200 : 503);
}

function checkStorage(services: Services): Check {
  try {
    services.store.check();
    return { status: "ok" };
  } catch (error) {
    services.log.error("storage check failed", { error });
    return { status: "failing", message: "The data folder can't be written." };
  }
}

function version({ build }: Services): WholeAnswer {
  const { name, version, commit, builtAt, runtime } = build;
  return jsonAnswer({ name, version, api_version: "v1", commit, built_at: builtAt, runtime });
}

async function metrics({ metrics }: Services): Promise<WholeAnswer> {
  return textAnswer(await metrics.render(), 200, metrics.contentType);
}

function open(
  path: string,
  summary: string,
  answer: (services: Services) => WholeAnswer | Promise<WholeAnswer>,
  media: string,
): Route {
  return {
    method: "GET",
    path,
    area: "operations",
    detail: describeOperation({ tag: "Operations", summary, open: true, media }),
    run: (services, exchange: Exchange) => {
      showAnonymousLimit(services, exchange);
      return answer(services);
    },
  };
}

export const opsRoutes: readonly Route[] = [
  open("/health", "Service status with its checks; 503 when storage is lost", health, "application/json"),
  open(
    "/healthz",
    "ok while new requests are taken; 503 while draining",
    (services) => (services.draining ? textAnswer("draining", 503) : textAnswer("ok")),
    "text/plain",
  ),
  open("/version", "What is running", version, "application/json"),
  open("/metrics", "Metrics in the Prometheus text format", metrics, "text/plain"),
];
