/** Streams that the server breaks off: their connection ends without the last chunk of a whole body, which `fetch` takes for an error. */

/** @returns the same answer, whose body ends where its connection does: what came of a broken one can be read as a text */
export function asFarAsItCame(response: Response): Response {
  const { body, headers } = response;
  const isStream = /^(?:text\/event-stream|application\/json)/.test(headers.get("content-type") ?? "");
  if (body === null || !isStream || headers.has("content-length")) return response;
  const reader = body.getReader();
  const lenient = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        if ((error as Error).name === "AbortError") controller.error(error);
        else controller.close();
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(lenient, response);
}
