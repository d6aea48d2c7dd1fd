"""Google's own client: a tool that it calls itself, a stream, the counter and errors. Arguments: pairs of a base address and a model."""
import os, sys
from google import genai
from google.genai import errors

said = "sunny-in-Oslo"


def weather(city: str) -> str:
    """The weather."""
    assert city == "Oslo", city
    return said


def converse(base, model):
    client = genai.Client(api_key=os.environ["TROUPE_KEY"], http_options={"base_url": base})
    answer = client.models.generate_content(model=model, contents="Oslo?", config={"tools": [weather]})
    assert said in answer.text, answer
    assert answer.usage_metadata.candidates_token_count == 4, answer.usage_metadata
    text = "".join(chunk.text or "" for chunk in client.models.generate_content_stream(model=model, contents="Oslo?"))
    assert text == '{"city":"Oslo"}', text
    assert client.models.count_tokens(model=model, contents="Oslo?").total_tokens > 0
    try:
        client.models.generate_content(model="nobody/x", contents="Oslo?")
        raise AssertionError("a model of nobody's was taken")
    except errors.ClientError as error:
        assert error.code in (400, 404) and error.status, error


for base, model in zip(sys.argv[1::2], sys.argv[2::2]):
    print(base, model, flush=True)
    converse(base, model)
