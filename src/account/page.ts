/** `/account` as it is served: one page, its script and its style sheet, with the console's policy. */
import type { Host, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { openRoutes } from "../http/ops.ts";
import { htmlHeaders, isDevelopment, keptOnce, pageFile, pagePolicy, preparedFiles } from "../http/pages/page-files.ts";
import { answerPage, preparePage } from "../http/pages/pages.ts";
import { nothingAt } from "../http/routes.ts";

const headers = htmlHeaders(pagePolicy("data:"), "accept-encoding");

/** Addresses are relative, for proxies with a prefix, and change with the content. */
const html = (hash: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Your account · Troupe</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="account/account.css?v=${hash}">
<script type="module" src="account/account.js?v=${hash}"></script>
</head>
<body>
<main><noscript>This page needs JavaScript. GET /v1/account with your key does without.</noscript></main>
</body>
</html>
`;

/** Made at the first request for them, and then kept. */
export function accountPageRoutes(host: Host) {
  const files = keptOnce(async () => {
    const made = await preparedFiles("account");
    return { ...made, page: await preparePage({ body: html(made.hash), headers }) };
  });
  return openRoutes(host)
    .get("/account", async ({ services, context, request }) => {
      checkServed(services, context);
      return answerPage((await files(isDevelopment)).page, request);
    })
    .get("/account/account.js", async ({ context }) => pageFile(context, await files(), "script"))
    .get("/account/account.css", async ({ context }) => pageFile(context, await files(), "style"));
}

/** @throws ApiError not_found where the operator serves no accounts: as if there were nothing */
function checkServed({ live }: Services, context: RequestContext): void {
  if (!live.config.account.enabled) throw nothingAt(context);
}
