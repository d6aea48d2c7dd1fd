/** The address without user and password, for people. */
export function placeOf(url: string): string {
  const { host, pathname, searchParams } = new URL(url);
  return `${host === "" ? (searchParams.get("host") ?? "") : host}${pathname}`;
}
