"""LangChain by chat, by Responses or by Messages. Arguments: the format, and pairs of a base address and a model."""
import os, sys
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

kind = sys.argv[1]
said = "sunny-in-Oslo"
key = os.environ["TROUPE_KEY"]


@tool
def weather(city: str) -> str:
    """The weather."""
    return said


def converse(base, name):
    if kind == "messages":
        from langchain_anthropic import ChatAnthropic

        model = ChatAnthropic(model=name, base_url=base, api_key=key, max_retries=0, max_tokens=50)
    else:
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(model=name, base_url=base, api_key=key, max_retries=0, stream_usage=True, use_responses_api=kind == "responses")

    bound = model.bind_tools([weather])
    question = HumanMessage("Oslo?")
    for streamed in [False, True]:

        def ask(messages):
            if not streamed:
                return bound.invoke(messages)
            whole = None
            for chunk in bound.stream(messages):
                whole = chunk if whole is None else whole + chunk
            return whole

        first = ask([question])
        [call] = first.tool_calls
        assert call["name"] == "weather" and call["args"] == {"city": "Oslo"}, first
        last = ask([question, first, ToolMessage(said, tool_call_id=call["id"])])
        assert said in last.text, last
        assert last.usage_metadata["output_tokens"] == 4, last.usage_metadata


for base, name in zip(sys.argv[2::2], sys.argv[3::2]):
    print(base, name, flush=True)
    converse(base, name)

if kind != "messages":
    from langchain_openai import OpenAIEmbeddings

    # It sends lists of tokens unless it is told that the model's server takes texts alone.
    made = OpenAIEmbeddings(
        model="openai/text-embedding-3-small", base_url=base, api_key=key, check_embedding_ctx_length=False
    ).embed_documents(["a", "bc"])
    assert [[round(value, 3) for value in one] for one in made] == [[1, -0.5], [2, -0.5]], made
