"""
Python's clients as readers of one answer: each line of the input is a question (`Question` in `reader.ts`), each line of the output
what the client made of the answer to it.
"""
import json, os, sys, types

parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
nested = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": parameters}}]
flat = [{"type": "function", "name": "weather", "description": "The weather.", "parameters": parameters, "strict": False}]
said = "sunny"


def written(args):
    return args if isinstance(args, str) else json.dumps(args, separators=(",", ":"))


def made(text, calls, end, **more):
    return {"text": text or "", "calls": [[name, written(args)] for name, args in calls], "end": end, **more}


def user(text):
    return {"role": "user", "content": text}


def read_chat(create, stream, history):
    """A client whose answers have OpenAI's form; it stops at the first end, as the plainest loop does."""
    if not stream:
        answer = create(False, history)
        [choice] = answer.choices
        message = choice.message
        calls = message.tool_calls or []
        got = made(message.content, [(c.function.name, c.function.arguments) for c in calls], choice.finish_reason)
        returned = message.model_dump(exclude_unset=True)
    else:
        text, calls, end, answer = [], {}, None, None
        for answer in create(True, history):
            answer = getattr(answer, "data", answer)  # Mistral's events.
            choice = answer.choices[0]
            text.append(choice.delta.content or "")
            for one in choice.delta.tool_calls or []:
                call = calls.setdefault(one.index, {"id": one.id, "type": "function", "function": {"name": one.function.name, "arguments": ""}})
                call["function"]["arguments"] += written(one.function.arguments or "")
            end = choice.finish_reason or end
            if end:
                break
        calls = list(calls.values())
        got = made("".join(text), [(c["function"]["name"], c["function"]["arguments"]) for c in calls], end)
        returned = {"role": "assistant", "content": "".join(text) or None, **({"tool_calls": calls} if calls else {})}
        calls = [types.SimpleNamespace(id=c["id"]) for c in calls]
    got["tier"] = getattr(answer, "service_tier", None)
    results = [{"role": "tool", "tool_call_id": call.id, "content": said} for call in calls]
    return got, [returned, *results, *([] if results else [user("and?")])]


def openai_client():
    import openai

    return openai.OpenAI(base_url=f"{url}/gateway/v1", api_key=key, max_retries=0)


def stainless(client):
    def create(stream, history):
        return client.chat.completions.create(model=model, messages=history, tools=nested, stream=stream)

    return lambda stream, history: read_chat(create, stream, history)


def together():
    from together import Together

    return stainless(Together(base_url=f"{url}/gateway", api_key=key, max_retries=0))


def groq():
    import groq, httpx

    class Unprefixed(httpx.HTTPTransport):
        """Its path begins with Groq's own, which is not taken here."""

        def handle_request(self, request):
            request.url = request.url.copy_with(path=request.url.path.replace("/openai/v1", "/v1"))
            return super().handle_request(request)

    http = httpx.Client(transport=Unprefixed())
    return stainless(groq.Groq(base_url=f"{url}/gateway", api_key=key, max_retries=0, http_client=http))


def openrouter():
    from openrouter import OpenRouter

    client = OpenRouter(server_url=f"{url}/gateway/v1", api_key=key)

    def create(stream, history):
        return client.chat.send(model=model, messages=history, tools=nested, stream=stream, retries=None)

    return lambda stream, history: read_chat(create, stream, history)


def mistral():
    from mistralai.client import Mistral

    # Adds /v1 itself.
    client = Mistral(server_url=f"{url}/gateway", api_key=key)

    def create(stream, history):
        ask = client.chat.stream if stream else client.chat.complete
        return ask(model=model, messages=history, tools=nested)

    return lambda stream, history: read_chat(create, stream, history)


def responses():
    client = openai_client()

    def ask(stream, history):
        asked = {"model": model, "input": history, "tools": flat, "store": False}
        if stream:
            # Its helper knows no end but `response.completed`.
            for event in client.responses.create(**asked, stream=True):
                if event.type in ("response.completed", "response.incomplete"):
                    answer = event.response
        else:
            answer = client.responses.create(**asked)
        calls = [item for item in answer.output if item.type == "function_call"]
        got = made(answer.output_text, [(c.name, c.arguments) for c in calls], answer.status, tier=answer.service_tier)
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": said} for call in calls]
        return got, [*answer.output, *results, *([] if results else [user("and?")])]

    return ask


def anthropic():
    import anthropic

    client = anthropic.Anthropic(base_url=f"{url}/gateway", api_key=key, max_retries=0)
    tools = [{"name": "weather", "description": "The weather.", "input_schema": parameters}]

    def ask(stream, history):
        asked = {"model": model, "max_tokens": 99, "messages": history, "tools": tools}
        if not stream:
            answer = client.messages.create(**asked)
            content, end = [block.model_dump(exclude_none=True) for block in answer.content], answer.stop_reason
        else:
            # Its helper refuses a call that was cut off.
            content, end = [], None
            for event in client.messages.create(**asked, stream=True):
                if event.type == "content_block_start":
                    content.append({**event.content_block.model_dump(exclude_none=True), "json": ""})
                elif event.type == "content_block_delta":
                    kept = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "json"}[event.delta.type]
                    content[-1][kept] = content[-1].get(kept, "") + getattr(event.delta, "partial_json" if kept == "json" else kept)
                elif event.type == "message_delta":
                    end = event.delta.stop_reason
        text = "".join(block["text"] for block in content if block["type"] == "text")
        uses = [block for block in content if block["type"] == "tool_use"]
        calls = [(block["name"], block.pop("json", "") or block["input"]) for block in uses]
        for block, (_, args) in zip(uses, calls):
            try:
                block["input"] = json.loads(args) if isinstance(args, str) else args
            except ValueError:
                pass
        for block in content:
            block.pop("json", None)
        results = [{"type": "tool_result", "tool_use_id": block["id"], "content": said} for block in uses]
        got = made(text, calls, end, last=content[-1]["type"] if content else None)
        return got, [{"role": "assistant", "content": content}, user(results or "and?")]

    return ask


def genai():
    from google import genai
    from google.genai import types as kinds

    client = genai.Client(api_key=key, http_options={"base_url": f"{url}/gateway"})
    tools = [{"function_declarations": [{"name": "weather", "parameters_json_schema": parameters}]}]

    def ask(stream, history):
        contents = [kinds.UserContent(one["content"]) if isinstance(one, dict) else one for one in history]
        asked = {"model": model, "contents": contents, "config": {"tools": tools}}
        answers = client.models.generate_content_stream(**asked) if stream else [client.models.generate_content(**asked)]
        parts, end = [], None
        for answer in answers:
            candidate = answer.candidates[0]
            parts += (candidate.content and candidate.content.parts) or []
            end = candidate.finish_reason or end
        text = "".join(part.text or "" for part in parts if not part.thought)
        calls = [part.function_call for part in parts if part.function_call]
        results = [kinds.Part.from_function_response(name=call.name, response={"result": said}) for call in calls]
        next_ones = [kinds.Content(role="user", parts=results)] if results else [user("and?")]
        got = made(text, [(call.name, call.args) for call in calls], end and end.name)
        return got, [kinds.Content(role="model", parts=parts), *next_ones]

    return ask


def pydantic_ai(kind):
    """Through its own model of a format; it names the ends of all of them the same."""

    def reader():
        from pydantic_ai import direct, messages
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        if kind == "gemini":
            from google import genai
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            client = genai.Client(api_key=key, http_options={"base_url": f"{url}/gateway"})
            chosen = GoogleModel(model, provider=GoogleProvider(client=client))
        else:
            import openai
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            client = openai.AsyncOpenAI(base_url=f"{url}/gateway/v1", api_key=key, max_retries=0)
            made_by = OpenAIChatModel if kind == "chat" else OpenAIResponsesModel
            chosen = made_by(model, provider=OpenAIProvider(openai_client=client))
        tool = ToolDefinition(name="weather", description="The weather.", parameters_json_schema=parameters)
        asked = {"model_request_parameters": ModelRequestParameters(function_tools=[tool])}

        def ask(stream, history):
            turns = [messages.ModelRequest.user_text_prompt(one["content"]) if isinstance(one, dict) else one for one in history]
            if stream:
                with direct.model_request_stream_sync(chosen, turns, **asked) as events:
                    for _ in events:
                        pass
                    answer = events.response
            else:
                answer = direct.model_request_sync(chosen, turns, **asked)
            text = "".join(part.content for part in answer.parts if part.part_kind == "text")
            calls = [part for part in answer.parts if part.part_kind == "tool-call"]
            results = [messages.ToolReturnPart(tool_name=c.tool_name, content=said, tool_call_id=c.tool_call_id) for c in calls]
            got = made(text, [(c.tool_name, c.args) for c in calls], answer.finish_reason)
            return got, [answer, messages.ModelRequest(parts=results) if results else user("and?")]

        return ask

    return reader


clients = {
    "openai, chat": lambda: stainless(openai_client()),
    "openai, Responses": responses,
    "anthropic": anthropic,
    "google-genai": genai,
    "together": together,
    "groq": groq,
    "openrouter": openrouter,
    "mistralai": mistral,
    **{f"pydantic-ai, {kind}": pydantic_ai(kind) for kind in ["chat", "responses", "gemini"]},
}
url, key = os.environ["TROUPE_URL"], os.environ["TROUPE_KEY"]
for line in sys.stdin:
    question = json.loads(line)
    model, stream = question["model"], question["stream"]
    try:
        url = question.get("url") or os.environ["TROUPE_URL"]
        ask = clients[question["client"]]()
        history = [user("hi")]
        got, turn = ask(stream, history)
        if question.get("again"):
            got, _ = ask(stream, [*history, *turn])
    except Exception as error:
        got = {"error": f"{type(error).__module__}.{type(error).__name__}: {error}"}
    print(json.dumps(got, default=lambda _: None), flush=True)  # Some have a value for what is not there.
