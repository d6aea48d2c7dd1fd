/** Words of files that others wrote must not steer the terminal: control characters are shown by their numbers. */
export const printable = (text: string): string =>
  text.replace(/[^\P{C}\n]/gu, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
