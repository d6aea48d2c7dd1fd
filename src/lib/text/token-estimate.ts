const bytesPerToken = 4;

/** Estimates the tokens of a text as one for each four bytes of it, which is near to what models' tokenizers count of prose. */
export const estimateTokens = (text: string): number => Math.ceil(Buffer.byteLength(text) / bytesPerToken);

/** The bytes that so many tokens are estimated for. */
export const bytesOfTokens = (tokens: number): number => tokens * bytesPerToken;
