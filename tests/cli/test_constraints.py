"""Constrained output by the command line."""
import json
import os
import pathlib
import re
import subprocess

KVIK = pathlib.Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"
FABLE = pathlib.Path(__file__).resolve().parents[2] / "models" / "fable"


def kvik(*arguments):
    return subprocess.run([KVIK, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def text(*arguments):
    done = kvik("run", FABLE, "Once upon a time", "--temperature", 1, "--seed", 3, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["finish"] == "stop"
    return result["text"]


def test_a_text_matches_what_it_is_constrained_to(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 10, "maximum": 99}}, "required": ["n"]}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "grammar.gbnf").write_text('root ::= "<" [a-z]{3} ">"\n')
    assert 10 <= json.loads(text("--json-schema", json.dumps(schema)))["n"] <= 99
    assert text("--json-schema", tmp_path / "schema.json") == text("--json-schema", json.dumps(schema))
    assert re.fullmatch("<[a-z]{3}>", text("--grammar", tmp_path / "grammar.gbnf"))
    assert re.fullmatch("[A-Z]{2}[0-9]", text("--regex", "[A-Z]{2}[0-9]"))


def test_mistakes_are_one_sentence(tmp_path):
    for arguments, expected in [
        (["--json-schema", '{"extends": {}}'], "the keyword 'extends' is not supported"),
        (["--json-schema", tmp_path / "missing.json"], "missing.json"),
        (["--regex", "(a"], "')' was expected"),
    ]:
        done = kvik("run", FABLE, "a", *arguments)
        assert done.returncode != 0 and expected in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert kvik("run", FABLE, "a", "--regex", "a", "--json-schema", "{}").returncode == 2
