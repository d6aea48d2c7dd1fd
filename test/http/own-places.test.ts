import { expect, test } from "bun:test";
import { ownPlaces } from "../../src/call/relay/errors.ts";
import type { Message, Tool } from "../../src/protocols/chat/schema.ts";

const said = (content: string): Message => ({ role: "user", content });
const tool = (name: string): Tool => ({ type: "function", function: { name } }) as Tool;

test("nothing is renamed where nothing stands beside the caller's words", () => {
  const asked = { messages: [said("a")], tools: [tool("t")] };
  expect(ownPlaces(asked, { ...asked })).toBeUndefined();
});

test("places are counted in the caller's own lists; what is not the caller's is the list", () => {
  const [system, first, second] = [said("s"), said("a"), said("b")];
  const own = tool("own");
  const sent = { messages: [said("persona"), system, said("example"), first, second], tools: [tool("other"), own] };
  const place = ownPlaces({ messages: [system, first, second], tools: [own] }, sent)!;
  expect(place("messages[1]")).toBe("messages[0]");
  expect(place("messages[4].content[2].text")).toBe("messages[2].content[2].text");
  expect(place("messages[2].content")).toBe("messages");
  expect(place("tools[1].function.name")).toBe("tools[0].function.name");
  expect(place("temperature")).toBe("temperature");
  expect(place("messages[99]")).toBe("messages");
});
