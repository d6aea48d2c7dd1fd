/** What a command may end with a failure for. Rises are shares: 0.2 is 20 %. */
export type FailOn = {
  readonly regression: boolean;
  readonly error: boolean;
  readonly cost?: number;
  readonly latency?: number;
};

/** @returns undefined for words that are none */
export function parseFailOn(text: string): FailOn | undefined {
  const found: { -readonly [key in keyof FailOn]: FailOn[key] } = { regression: false, error: false };
  for (const word of text.split(",").map((one) => one.trim())) {
    const [, name, share] = /^(cost|latency)\+(\d+(?:\.\d+)?)%$/.exec(word) ?? [];
    if (word === "regression" || word === "error") found[word] = true;
    else if (name !== undefined) found[name as "cost"] = Number(share) / 100;
    else return undefined;
  }
  return found;
}
