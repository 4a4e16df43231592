"""Decoders from random choices: every way to their logits agrees, on every backend; what is not a program over rows is refused by name."""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest

from random_decoders.choices import REFUSED, Choices, draw
from random_decoders.decoder import build
from random_decoders.truth import logits_of, prompt_of, tolerance_of

BINARY = Path(os.environ["KVIK_BINARY_DIR"]) / "compare-backends"
N_MODELS = int(os.environ.get("KVIK_RANDOM_MODELS", 150))
N_REFUSED = int(os.environ.get("KVIK_RANDOM_REFUSED", 3))  # of each kind
FIRST = int(os.environ.get("KVIK_RANDOM_FIRST", 0))


def write_case(folder: Path, c: Choices) -> dict:
    model, pairs = build(c)
    onnx.checker.check_model(model)
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    logits_of(model, pairs, c).astype("<f4").tofile(folder / "truth.f32")
    (folder / "config.json").write_text(json.dumps({"vocab_size": c.vocab}))
    return {
        "path": str(folder / "model.onnx"), "ids": prompt_of(c)[0].tolist(), "truth": str(folder / "truth.f32"),
        "tolerance": tolerance_of(c), "native": True, "names": [node.name for node in model.graph.node],
    }


def compare(cases: list[dict]) -> list[dict]:
    lines = "".join(json.dumps({k: v for k, v in case.items() if k != "names"}) + "\n" for case in cases)
    done = subprocess.run([BINARY], input=lines, capture_output=True, text=True, timeout=600)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"stopped after {len(answers)} models: {done.stderr}"
    return answers


@pytest.fixture(scope="module")
def answers():
    """(choices, names of its nodes, what was found) of each model."""
    choices = [draw(FIRST + seed) for seed in range(N_MODELS)]
    choices += [draw(FIRST + seed, kind) for kind in REFUSED for seed in range(N_REFUSED)]
    with tempfile.TemporaryDirectory() as folder:
        cases = [write_case(Path(folder) / str(i), c) for i, c in enumerate(choices)]
        with ThreadPoolExecutor(2) as pool:
            found = [answer for part in pool.map(compare, (cases[: len(cases) // 2], cases[len(cases) // 2 :])) for answer in part]
    return list(zip(choices, (case["names"] for case in cases), found))


def listed(problems: list[str]) -> str:
    return f"{len(problems)} models\n" + "\n".join(problems[:20])


def test_every_way_to_the_logits_agrees(answers):
    wrong = [f"{answer['problems'][:2]} of {c}" for c, _, answer in answers if answer["problems"] and not c.refuse]
    assert not wrong, listed(wrong)


def test_every_decoder_over_rows_compiles(answers):
    refused = [f"{answer['refused']} of {c}" for c, _, answer in answers if not c.refuse and answer["refused"]]
    assert not refused, listed(refused)


def test_what_is_no_program_over_rows_is_refused_by_the_name_of_a_node(answers):
    wrong = [f"{answer['refused']} of {c}" for c, names, answer in answers if c.refuse and not names_a_node(answer["refused"], names)]
    assert not wrong, listed(wrong)


def names_a_node(sentence: str | None, names: list[str]) -> bool:
    return sentence is not None and any(name in sentence for name in names)
