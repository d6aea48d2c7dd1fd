"""Streams that break, by each way of one client. Arguments: the package, then pairs of a server's root and a model."""
import asyncio, os, sys

package = sys.argv[1]
key = os.environ["TROUPE_KEY"]


async def read(stream):
    return "".join([part async for part in stream])


def joined(texts):
    return "".join(text or "" for text in texts)


def openai_ways():
    import openai

    def client():
        return openai.OpenAI(base_url=f"{root}/v1", api_key=key, max_retries=0)

    def chat():
        messages = [{"role": "user", "content": prompt}]
        chunks = client().chat.completions.create(model=model, messages=messages, stream=True)
        return joined(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)

    def completions():
        chunks = client().completions.create(model=model, prompt=prompt, stream=True)
        return joined(chunk.choices[0].text for chunk in chunks if chunk.choices)

    def responses():
        events = client().responses.create(model=model, input=prompt, stream=True)
        return joined(event.delta for event in events if event.type == "response.output_text.delta")

    def helper():
        with client().responses.stream(model=model, input=prompt) as stream:
            return joined(event.delta for event in stream if event.type == "response.output_text.delta")

    return openai.APIError, [chat, completions, responses, helper]


def together_ways():
    import together

    def chat():
        # Adds /v1 itself.
        client = together.Together(base_url=root, api_key=key, max_retries=0)
        messages = [{"role": "user", "content": prompt}]
        chunks = client.chat.completions.create(model=model, messages=messages, stream=True)
        return joined(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)

    return together.APIError, [chat]


def anthropic_ways():
    import anthropic

    def messages():
        client = anthropic.Anthropic(base_url=root, api_key=key, max_retries=0)
        asked = {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
        with client.messages.stream(**asked) as stream:
            return joined(stream.text_stream)

    return anthropic.APIError, [messages]


def genai_ways():
    from google import genai
    from google.genai import errors

    def generate():
        client = genai.Client(api_key=key, http_options={"base_url": root})
        return joined(one.text for one in client.models.generate_content_stream(model=model, contents=prompt))

    return errors.APIError, [generate]


def agents_ways():
    import openai
    from agents import Agent, OpenAIProvider, RunConfig, Runner

    def way(by_responses):
        async def run():
            provider = OpenAIProvider(base_url=f"{root}/v1", api_key=key, use_responses=by_responses)
            config = RunConfig(model_provider=provider, tracing_disabled=True)
            running = Runner.run_streamed(Agent(name="a", model=model), prompt, run_config=config)
            async for _ in running.stream_events():
                pass
            return running.final_output

        return lambda: asyncio.run(run())

    return openai.APIError, [way(False), way(True)]


def langchain_openai_ways():
    import openai
    from langchain_openai import ChatOpenAI

    def way(by_responses):
        def run():
            chat = ChatOpenAI(
                model=model, base_url=f"{root}/v1", api_key=key, max_retries=0, use_responses_api=by_responses
            )
            return joined(chunk.text for chunk in chat.stream(prompt))

        return run

    return openai.APIError, [way(False), way(True)]


def langchain_anthropic_ways():
    import anthropic
    from langchain_anthropic import ChatAnthropic

    def messages():
        chat = ChatAnthropic(model=model, base_url=root, api_key=key, max_retries=0)
        return joined(chunk.text for chunk in chat.stream(prompt))

    return anthropic.APIError, [messages]


def pydantic_ai_ways():
    import anthropic
    import openai
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import AgentRunError
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def way(kind):
        async def run():
            client = openai.AsyncOpenAI(base_url=f"{root}/v1", api_key=key, max_retries=0)
            agent = Agent(kind(model, provider=OpenAIProvider(openai_client=client)))
            async with agent.run_stream(prompt) as result:
                return await read(result.stream_text(delta=True))

        return lambda: asyncio.run(run())

    return (AgentRunError, openai.APIError, anthropic.APIError), [way(OpenAIChatModel), way(OpenAIResponsesModel)]


def haystack_ways():
    import openai
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    def way(kind):
        def run():
            generator = kind(
                model=model,
                api_base_url=f"{root}/v1",
                api_key=Secret.from_token(key),
                streaming_callback=lambda chunk: None,
                max_retries=0,
            )
            return generator.run([ChatMessage.from_user(prompt)])["replies"][0].text

        return run

    return openai.APIError, [way(OpenAIChatGenerator), way(OpenAIResponsesChatGenerator)]


def llama_index_ways():
    import openai
    from llama_index.llms import openai as llms
    from llama_index.llms.openai_like import OpenAILike

    def way(kind, **more):
        def run():
            llm = kind(model=model, api_base=f"{root}/v1", api_key=key, max_retries=0, **more)
            return joined(one.delta for one in llm.stream_complete(prompt))

        return run

    return openai.APIError, [
        way(OpenAILike, is_chat_model=True),
        way(OpenAILike, is_chat_model=False),
        # Older versions, which others' needs may bring along, have chat alone.
        *([way(llms.OpenAIResponses, context_window=8000)] if hasattr(llms, "OpenAIResponses") else []),
    ]


def litellm_ways():
    import litellm
    import openai

    def chat():
        messages = [{"role": "user", "content": prompt}]
        asked = {"model": f"openai/{model}", "api_base": f"{root}/v1", "api_key": key, "num_retries": 0, "max_retries": 0}
        chunks = litellm.completion(**asked, messages=messages, stream=True)
        return joined(chunk.choices[0].delta.content for chunk in chunks)

    return openai.APIError, [chat]


ways_of = {
    "openai": openai_ways,
    "together": together_ways,
    "anthropic": anthropic_ways,
    "google.genai": genai_ways,
    "agents": agents_ways,
    "langchain_openai": langchain_openai_ways,
    "langchain_anthropic": langchain_anthropic_ways,
    "pydantic_ai": pydantic_ai_ways,
    "haystack": haystack_ways,
    "llama_index": llama_index_ways,
    "litellm": litellm_ways,
}
expected, ways = ways_of[package]()
silent = []
for root, model in zip(sys.argv[2::2], sys.argv[3::2]):
    for way_number, way in enumerate(ways):
        for prompt in ["whole", "break before", "break after", "break by error"]:
            place = f"{model} at {root}, way {way_number}, {prompt}"
            try:
                text = way()
                if prompt != "whole" or text != "Hello there":
                    silent.append(f"{place}: {text!r}")
            except expected as error:
                if prompt == "whole":
                    silent.append(f"{place}: {error!r}")
            except Exception as error:
                silent.append(f"{place}: {type(error).__module__}.{error!r}"[:600])
assert not silent, "\n".join(silent)
print("ok")
