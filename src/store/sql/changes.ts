/** @returns the same methods, of which each named one runs `then` once its change is made */
export function afterChanges<R extends object>(methods: R, names: readonly (keyof R)[], then: () => unknown): R {
  const changing = names.map((name) => [
    name,
    async (...args: unknown[]) => {
      const result = await (methods[name] as (...args: unknown[]) => unknown)(...args);
      await then();
      return result;
    },
  ]);
  return { ...methods, ...Object.fromEntries(changing) };
}

/** Methods whose changes calls must learn of before the next one. */
export const keyChanges = ["insert", "insertFirst", "revoke", "update", "replaceSecret"] as const;
export const budgetChanges = ["set", "add", "remove"] as const;
