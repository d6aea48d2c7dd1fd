const most = 5;

/** The first five of names, and how many more there are: `a, b, c, d, e and 3 more`. */
export const few = (names: readonly string[]): string =>
  names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");
