"""OpenAI's Agents SDK: an agent with a tool, plain and streamed, by Responses and by chat. Arguments: pairs of a base address and a model."""
import asyncio, os, sys
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)
said = "sunny-in-Oslo"


@function_tool
def weather(city: str) -> str:
    """The weather."""
    assert city == "Oslo", city
    return said


async def converse(base, name):
    client = AsyncOpenAI(base_url=base, api_key=os.environ["TROUPE_KEY"], max_retries=0)
    for made in [OpenAIResponsesModel, OpenAIChatCompletionsModel]:
        agent = Agent(name="Forecaster", model=made(model=name, openai_client=client), tools=[weather])
        plain = await Runner.run(agent, "Oslo?")
        assert said in plain.final_output, plain.final_output
        streamed = Runner.run_streamed(agent, "Oslo?")
        async for _ in streamed.stream_events():
            pass
        assert said in streamed.final_output, streamed.final_output


async def main():
    for base, name in zip(sys.argv[1::2], sys.argv[2::2]):
        print(base, name, flush=True)
        await converse(base, name)


asyncio.run(main())
