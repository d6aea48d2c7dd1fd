/** @returns the SHA-256 of the bytes, or of the text in UTF-8, in hexadecimal digits */
export const sha256Of = (value: string | Uint8Array): string => Bun.SHA256.hash(value, "hex");
