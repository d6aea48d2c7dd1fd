/** A conversation's summary as the user says it to a model that was not there. */
export const summaryText = (summary: string): string => `Summary of the conversation so far:\n\n${summary}`;
