/** The places of one account of a configuration: several keys, several endpoints. */

/** Keys and addresses of an account. */
type Part = { readonly baseUrl: string | undefined; readonly key: string | undefined; readonly weight: number };

/** The keys and addresses of an account, as a configuration has them. */
export function endpointFieldsOf(parts: readonly Part[]): Record<string, unknown> {
  const [only] = parts;
  const weighted = (weight: number) => (weight === 1 ? {} : { weight });
  if (parts.length === 1)
    return {
      ...(only!.baseUrl !== undefined && { base_url: only!.baseUrl }),
      ...(only!.key !== undefined && { api_key: only!.key }),
    };
  if (new Set(parts.map(({ baseUrl }) => baseUrl)).size === 1) {
    const keys = parts.flatMap(({ key, weight }) => (key === undefined ? [] : { key, ...weighted(weight) }));
    return { ...(only!.baseUrl !== undefined && { base_url: only!.baseUrl }), api_keys: keys };
  }
  return {
    endpoints: parts.map(({ baseUrl, key, weight }) => ({
      base_url: baseUrl,
      ...(key !== undefined && { api_keys: [key] }),
      ...weighted(weight),
    })),
  };
}
