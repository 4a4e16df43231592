"""The programs of examples/python do what they say, and pass a strict type checker with the types of the package."""
import importlib.util
import os
import pathlib
import runpy
import subprocess
import sys

import numpy as np
import pytest

from command_line import FABLE, ROOT

EXAMPLES = ROOT / "examples" / "python"
PACKAGE = pathlib.Path(os.environ["KVIK_BINARY_DIR"]).resolve() / "python"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch, capsys):
    """What a program prints. It runs in this process, which has the package and its kernels already."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_tree_search_finds_the_likeliest_texts(fable, run):
    tree_search = example("tree_search")
    found = tree_search.search(fable, "Once upon a time", 2, n_best=5, width=6)
    context = fable.tokenize("Once upon a time")
    session = fable.session()
    session.append(context)
    first = np.argsort(-tree_search.log_softmax(session.logits))[:6]
    everything = []
    for token in first:
        child = session.fork()
        child.append(int(token))
        for second in np.argsort(-tree_search.log_softmax(child.logits))[:6]:
            everything.append((fable.score([*context, int(token), int(second)]).logprobs[-2:].sum(), [int(token), int(second)]))
    everything.sort(key=lambda each: -each[0])
    assert [ids for _, ids in found] == [ids for _, ids in everything[:5]]
    assert np.allclose([logprob for logprob, _ in found], [logprob for logprob, _ in everything[:5]])
    assert len(run("tree_search", FABLE).splitlines()) == 3


def test_a_python_function_decides_among_logits(run):
    words = run("constrained", FABLE, "The king said to his", "s").removeprefix("The king said to his").split()
    assert words and all(word.lower().startswith("s") for word in words)


def test_contrastive_decoding_without_plausibility_is_greedy(fable, run):
    contrastive = example("contrastive")
    ids = fable.tokenize("Once upon a time")
    expected = fable.generate(ids, max_tokens=8)
    expected.text()
    assert list(contrastive.generate(fable, fable, ids, 1.0, 8)) == expected.ids.tolist()
    assert list(contrastive.generate(fable, fable, ids, 0.01, 8)) != expected.ids.tolist()
    assert run("contrastive", FABLE).startswith("Once upon a time")


def test_perplexity_of_many_texts_is_that_of_all_their_tokens(fable, tmp_path, run):
    texts = [f"Once upon a time there was a {word} who lived in a wood." for word in ("king", "fox", "boy", "cat", "hen")]
    scores = [fable.score(text) for text in texts]
    expected = np.exp(-sum(score.sum_logprob for score in scores) / sum(len(score.logprobs) for score in scores))
    assert example("perplexity").perplexity(fable, texts, 4) == pytest.approx(expected, rel=1e-12)
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    assert run("perplexity", FABLE, tmp_path / "texts") == f"{expected:.4f}\n"


def test_examples_and_package_pass_a_strict_type_checker():
    checked = [*EXAMPLES.glob("*.py"), ROOT / "python" / "kvik"]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml", "--cache-dir", PACKAGE / "mypy"]
    done = subprocess.run([*command, *checked], cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "MYPYPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stdout


def test_types_are_those_of_the_module(tmp_path):
    """tools/python/write_types writes the two files again."""
    subprocess.run([sys.executable, ROOT / "tools" / "python" / "write_types", PACKAGE.parent, tmp_path], check=True)
    for name in ("_kvik.pyi", "_sampling.py"):
        assert (tmp_path / name).read_text() == (ROOT / "python" / "kvik" / name).read_text(), f"{name}: run tools/python/write_types"
