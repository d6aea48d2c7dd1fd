/** All forms that personas are exported to. */
import { characterCards } from "./character-card.ts";
import type { Exporter } from "./exporter.ts";

export const exporters: readonly Exporter[] = [...characterCards];
