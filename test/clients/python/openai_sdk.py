"""OpenAI's own client: chat, Responses, embeddings and errors. Arguments: pairs of a base address and a model."""
import json, os, sys
import openai
from pydantic import BaseModel

city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
flat = {"type": "function", "name": "weather", "description": "The weather.", "parameters": city, "strict": True}
nested = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": city}}
said = "sunny-in-Oslo"


class City(BaseModel):
    city: str


def chat():
    messages = [{"role": "user", "content": "Oslo?"}]
    first = client.chat.completions.create(model=model, messages=messages, tools=[nested])
    call = first.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Oslo"}, call
    result = {"role": "tool", "tool_call_id": call.id, "content": said}
    with client.chat.completions.stream(
        model=model, messages=[*messages, first.choices[0].message, result], tools=[nested]
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert said in final.choices[0].message.content, final
    parsed = client.chat.completions.parse(model=model, messages=messages, response_format=City)
    assert parsed.choices[0].message.parsed == City(city="Oslo"), parsed
    assert client.beta.chat.completions is not None


def responses():
    question = {"role": "user", "content": "Oslo?"}
    first = client.responses.create(model=model, input=[question], tools=[flat], store=False)
    call = next(item for item in first.output if item.type == "function_call")
    assert json.loads(call.arguments) == {"city": "Oslo"}, call
    output = {"type": "function_call_output", "call_id": call.call_id, "output": said}
    with client.responses.stream(
        model=model, input=[question, *first.output, output], tools=[flat], store=False
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert said in final.output_text and final.usage.total_tokens == 13, final
    parsed = client.responses.parse(model=model, input="Oslo?", text_format=City)
    assert parsed.output_parsed == City(city="Oslo"), parsed
    if base.endswith("/gateway/v1") and model.startswith("openai/"):
        return  # OpenAI keeps its own answers, and this stand-in none.
    again = client.responses.create(model=model, input="And Rome?", previous_response_id=parsed.id)
    assert client.responses.retrieve(again.id).id == again.id
    client.responses.delete(again.id)
    try:
        client.responses.retrieve(again.id)
        raise AssertionError("a deleted answer was found")
    except openai.NotFoundError:
        pass


def embeddings():
    """By the address that was asked last, which is the gateway's."""
    for name in ["openai/text-embedding-3-small", "google/gemini-embedding-001"]:
        made = client.embeddings.create(model=name, input=["a", "bc"])
        assert [[round(value, 3) for value in one.embedding] for one in made.data] == [[1, -0.5], [2, -0.5]], made


def errors():
    try:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}], temperature=7)
        raise AssertionError("temperature was taken")
    except openai.BadRequestError as error:
        assert error.param == "temperature", error
    try:
        client.responses.create(model=model, input=[{"role": "user", "content": 7}])
        raise AssertionError("a number was taken")
    except openai.BadRequestError as error:
        assert error.param.startswith("input[0]"), error.param
    try:
        openai.OpenAI(base_url=base, api_key="no", max_retries=0).models.list()
        raise AssertionError("a wrong key was taken")
    except openai.AuthenticationError as error:
        assert error.request_id, error


for base, model in zip(sys.argv[1::2], sys.argv[2::2]):
    print(base, model, flush=True)
    client = openai.OpenAI(base_url=base, api_key=os.environ["TROUPE_KEY"], max_retries=0)
    chat()
    responses()
    errors()
    assert any(True for _ in client.models.list())
embeddings()
