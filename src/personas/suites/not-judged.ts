/** What keeps an answer from being judged; the test is neither passed nor failed then. */
export class NotJudged extends Error {
  override readonly name = "NotJudged";
}
