"""
llama.cpp's own server, with a model made on the spot: a Llama that is a fixed chain of tokens, so that it says what a test wants. Its
embedding is one-hot, attention and MLP are zero, and the output's row of a token is the one that leads to it.

Behind a request with tools it calls one; where the last message has the word "loop" it goes on for ever; else it says "ABCD".

usage: llama_server.py <folder> <port>; prints "up" once it answers, and ends with its input.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
CHAIN = {">": "A", "A": "B", "B": "C", "C": "D", "D": "</s>", "L": "M", "M": "L", "T": CALL, CALL: "</s>"}
# Calls as Hermes' models write them, which the server finds out from how an earlier one is rendered.
TEMPLATE = """{%- if tools %}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- endif %}
{%- for m in messages %}{{ m.content or "" }}
{%- for call in m.tool_calls or [] %}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}
{%- if tools and messages[-1].role != "tool" %}T{%- elif "loop" in messages[-1].content %}L{%- else %}>{%- endif %}
{%- endif %}"""
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6


def make(path: Path) -> None:
    words = list(dict.fromkeys([*CHAIN, *CHAIN.values()]))
    words.remove("</s>")
    special = ["<unk>", "<s>", "</s>"]
    single = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = special + single + words
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(words)
    while len(tokens) % 32:
        tokens.append(f"<unused{len(tokens)}>")
        kinds.append(UNUSED)
    size, place = len(tokens), {token: at for at, token in enumerate(tokens)}
    model = gguf.GGUFWriter(path, "llama")
    model.add_context_length(2048)
    model.add_embedding_length(size)
    model.add_block_count(1)
    model.add_feed_forward_length(32)
    model.add_head_count(1)
    model.add_head_count_kv(1)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_rope_dimension_count(size)
    model.add_vocab_size(size)
    model.add_tokenizer_model("llama")
    model.add_token_list(tokens)
    model.add_token_scores([0.0] * size)
    model.add_token_types(kinds)
    model.add_bos_token_id(1)
    model.add_eos_token_id(2)
    model.add_unk_token_id(0)
    model.add_add_space_prefix(False)
    model.add_chat_template(TEMPLATE)
    output = np.zeros((size, size), np.float32)
    output[place["</s>"]] = 1
    for token, following in CHAIN.items():
        output[:, place[token]] = 0
        output[place[following], place[token]] = 1
    zeros, ones = (lambda *shape: np.zeros(shape, np.float32)), np.ones(size, np.float32)
    tensors = {
        "token_embd": np.eye(size, dtype=np.float32),
        "output_norm": ones,
        "output": output,
        "blk.0.attn_norm": ones,
        "blk.0.ffn_norm": ones,
        **{f"blk.0.attn_{name}": zeros(size, size) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": zeros(32, size),
        "blk.0.ffn_up": zeros(32, size),
        "blk.0.ffn_down": zeros(size, 32),
    }
    for name, values in tensors.items():
        model.add_tensor(f"{name}.weight", values)
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


folder, port = Path(sys.argv[1]), int(sys.argv[2])
file = folder / "chain.gguf"
if not file.exists():
    make(file)
params = xllamacpp.CommonParams()
params.model.path = str(file)
params.n_ctx = 512
params.port = port
params.n_parallel = 1
params.sampling.temp = 0.0
params.cpuparams.n_threads = 1
params.use_jinja = True
server = xllamacpp.Server(params)
print("up", flush=True)
sys.stdin.read()
