"""Anthropic's own client: create, stream, the tool runner, the counter, models and errors. Arguments: pairs of a base address and a model."""
import os, sys
import anthropic
from anthropic import beta_tool

said = "sunny-in-Oslo"


@beta_tool
def weather(city: str) -> str:
    """The weather.

    Args:
        city: Where.
    """
    assert city == "Oslo", city
    return said


question = {"role": "user", "content": "Oslo?"}
tools = [weather.to_dict()]

def converse(base, model):
    client = anthropic.Anthropic(base_url=base, api_key=os.environ["TROUPE_KEY"], max_retries=0)
    first = client.messages.create(model=model, max_tokens=50, messages=[question], tools=tools)
    use = next(block for block in first.content if block.type == "tool_use")
    assert first.stop_reason == "tool_use" and use.input == {"city": "Oslo"}, first
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": said}]}
    turns = [question, {"role": "assistant", "content": first.content}, result]
    with client.messages.stream(model=model, max_tokens=50, messages=turns, tools=tools) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert said in text and final.stop_reason == "end_turn" and final.usage.output_tokens == 4, final

    for streamed in [False, True]:
        runner = client.beta.messages.tool_runner(
            model=model, max_tokens=50, messages=[question], tools=[weather], **({"stream": True} if streamed else {})
        )
        last = runner.until_done()
        assert said in last.content[-1].text, last

    counted = client.messages.count_tokens(model=model, messages=[question])
    assert counted.input_tokens > 0, counted
    assert any(True for _ in client.models.list())

    try:
        client.messages.create(model="nobody/x", max_tokens=50, messages=[question])
        raise AssertionError("a model of nobody's was taken")
    except (anthropic.BadRequestError, anthropic.NotFoundError) as error:
        assert error.request_id and error.body["type"] == "error", error
    try:
        anthropic.Anthropic(base_url=base, api_key="no", max_retries=0).messages.create(
            model=model, max_tokens=5, messages=[question]
        )
        raise AssertionError("a wrong key was taken")
    except anthropic.AuthenticationError:
        pass


for base, model in zip(sys.argv[1::2], sys.argv[2::2]):
    print(base, model, flush=True)
    converse(base, model)
