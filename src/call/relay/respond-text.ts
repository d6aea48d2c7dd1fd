/** Answers that are long texts, such as tables for spreadsheets. */
import { inPieces } from "../../lib/streams/pieces.ts";
import type { StreamEnd } from "../../upstream/answer.ts";
import type { RequestContext } from "../context.ts";

const utf8 = new TextEncoder();

/**
 * Answers with texts as they are read: the next ones are read once the client has taken those before, so that few are in memory. Rejects where the first ones can't be
 * read; a later fault breaks the connection, so that nobody takes a part for the whole.
 * @param headers of the answer, its content type among them
 */
export async function respondText(
  context: RequestContext,
  texts: AsyncIterable<string>,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const pieces = inPieces(texts);
  let ahead: IteratorResult<string, void> | undefined = await pieces.next();
  let isEnded = false;
  const finish = (end: StreamEnd) => {
    if (!isEnded) context.finish(200, end);
    isEnded = true;
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = ahead ?? (await pieces.next());
        ahead = undefined;
        if (done === true) {
          finish("finished");
          controller.close();
        } else if (!isEnded) controller.enqueue(utf8.encode(value));
      } catch (error) {
        finish("faulted");
        controller.error(error);
      }
    },
    async cancel() {
      finish("cancelled");
      await pieces.return();
    },
  });
  return new Response(body, { headers: { ...headers, ...context.headers } });
}
