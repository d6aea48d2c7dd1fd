/** Messages of AWS's event streams. Source: https://smithy.io/2.0/aws/amazon-eventstream.html */

const stringType = 7;

/** @param headers texts by their names */
function message(headers: Readonly<Record<string, string>>, payload: string): Buffer {
  const head = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const text = Buffer.from(value);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(text.length);
      return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([stringType]), length, text]);
    }),
  );
  const body = Buffer.from(payload);
  const whole = Buffer.alloc(12 + head.length + body.length + 4);
  whole.writeUInt32BE(whole.length, 0);
  whole.writeUInt32BE(head.length, 4);
  whole.writeUInt32BE(Bun.hash.crc32(whole.subarray(0, 8)), 8);
  head.copy(whole, 12);
  body.copy(whole, 12 + head.length);
  whole.writeUInt32BE(Bun.hash.crc32(whole.subarray(0, -4)), whole.length - 4);
  return whole;
}

export const eventMessage = (type: string, payload: string): Buffer =>
  message({ ":event-type": type, ":content-type": "application/json", ":message-type": "event" }, payload);

export const exceptionMessage = (type: string, payload: string): Buffer =>
  message({ ":exception-type": type, ":content-type": "application/json", ":message-type": "exception" }, payload);
