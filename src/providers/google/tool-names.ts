/** Names of functions: "must start with a letter or an underscore … a-z, A-Z, 0-9, underscores, dots, colons and dashes": https://ai.google.dev/api/caching#FunctionDeclaration */
import type { NameForm } from "../tool-names.ts";

export const nameForm: NameForm = {
  legal: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  maxLength: 128,
  fitting(name) {
    const clean = name.replace(/[^a-zA-Z0-9_.:-]/g, "_");
    return /^[a-zA-Z_]/.test(clean) ? clean : `_${clean}`;
  },
};
