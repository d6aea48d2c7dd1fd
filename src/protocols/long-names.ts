/** Names of functions that are longer than every format takes: `^[a-zA-Z0-9_-]{1,64}$`. */
export const maxName = 64;

/** @param text what the name stands for, where it is not the only one of that name @returns a legal name, the same for the same text */
export function shortened(name: string, text = name): string {
  const mark = Bun.hash(text).toString(36);
  return `${name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, maxName - mark.length - 1)}_${mark}`;
}

/** The name itself where it is short enough. */
export const fittingName = (name: string): string => (name.length <= maxName ? name : shortened(name));
