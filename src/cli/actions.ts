/** The actions of commands, beside serving: loaded when one is run, so that neither a start nor help waits for it. */
export { printOpenApi, printVersion } from "./about.ts";
export { testAlerts } from "./alerts.ts";
export { listBudgets, removeBudget, setBudget, topUpBudget } from "./budgets.ts";
export { check } from "./check.ts";
export { printCompletion } from "./completion.ts";
export { printConfig, printConfigSchema } from "./config.ts";
export { backUpData, pruneData, restoreData, showDataStats } from "./data.ts";
export { doctor } from "./doctor/doctor.ts";
export { checkHealth } from "./health.ts";
export { createKey, listKeys, revokeKey, rotateKey, showKey, updateKey } from "./keys.ts";
export { migrate } from "./migrate.ts";
export { moveData } from "./move.ts";
export { renderPersona } from "./personas/render.ts";
export { checkPersonas, listPersonas, printPersonaSchema, showPersona } from "./personas.ts";
export { showPrice, updatePrices } from "./prices.ts";
export { installService, printService, showServiceStatus, uninstallService } from "./service.ts";
export { showUsage } from "./usage.ts";
