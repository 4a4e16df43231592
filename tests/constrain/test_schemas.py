"""Texts that random logits give under JSON schemas are valid by the package jsonschema, with tokenizers of every kind."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

import public_schemas
import schemas

HERE = Path(__file__).resolve().parent
TOKENIZERS = HERE.parent / "fixtures" / "tokenizers"
TOOL = Path(os.environ["KVIK_BINARY_DIR"]) / "constrained"
FABLE = HERE.parent.parent / "models" / "fable"
# Byte-level, SentencePiece with bytes as a fallback in both kinds of files.
KINDS = [FABLE, TOKENIZERS / "byte-level", TOKENIZERS / "byte-fallback", TOKENIZERS / "spm-bpe"]


def generate(requests):
    lines = "\n".join(json.dumps(request) for request in requests) + "\n"
    done = subprocess.run([TOOL], input=lines, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert len(results) == len(requests)
    return results


def request(tokenizer, schema, seed):
    return {"tokenizer": str(tokenizer), "schema": json.dumps(schema), "seed": seed, "max_tokens": 150, "closing": 5.0}


def check(schema, result):
    value = json.loads(result["text"])
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        jsonschema.validate(value, schema, cls=draft, format_checker=draft.FORMAT_CHECKER)
    except jsonschema.ValidationError as e:
        pytest.fail(f"{json.dumps(schema)}\n{result['text']}\n{e.message}")


def test_every_finished_text_satisfies_its_schema():
    all_schemas = schemas.HAND_WRITTEN + [schemas.make(seed) for seed in range(200 - len(schemas.HAND_WRITTEN))]
    requests = [request(KINDS[(i + n) % len(KINDS)], schema, i) for i, schema in enumerate(all_schemas) for n in range(2)]
    results = generate(requests)
    n_stopped = 0
    for asked, result in zip(requests, results):
        schema = json.loads(asked["schema"])
        if nullable := schema.pop("nullable", False):
            schema = {"anyOf": [schema, {"type": "null"}]}
        assert "error" not in result, (asked, result, nullable)
        if result["finish"] == "stop":
            n_stopped += 1
            check(schema, result)
    assert n_stopped > 0.8 * len(results), f"only {n_stopped} of {len(results)} texts ended"


def test_schemas_as_in_public_collections():
    requests = [request(KINDS[(i + n) % len(KINDS)], schema, 7 * i + n) for i, schema in enumerate(public_schemas.ALL) for n in range(4)]
    n_stopped = 0
    for asked, result in zip(requests, generate(requests)):
        assert "error" not in result, (asked, result)
        if result["finish"] == "stop":
            n_stopped += 1
            check(json.loads(asked["schema"]), result)
    assert n_stopped > 0.8 * len(requests), f"only {n_stopped} of {len(requests)} texts ended"


def test_a_vocabulary_without_the_needed_characters_is_an_error():
    [result] = generate([{"tokenizer": str(TOKENIZERS / "wordlevel"), "regex": "\u00a7{3}", "seed": 1, "max_tokens": 5, "closing": 0.0}])
    assert "error" in result


def test_regular_expressions_match_as_a_whole():
    import re

    pattern = "(ab|[x-z\u00e9]{2,4})+-[0-9]{1,3}"
    requests = [{"tokenizer": str(kind), "regex": pattern, "seed": seed, "max_tokens": 60, "closing": 0.0} for kind in KINDS for seed in range(5)]
    for result in generate(requests):
        assert "error" not in result
        if result["finish"] == "stop":
            assert re.fullmatch(pattern, result["text"]), result
