"""The fixtures of tests/fixtures/sampling are what transformers says today; skipped where torch and transformers are not installed."""

import importlib.util
import json
import pathlib

import pytest

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


@pytest.fixture(scope="module")
def made():
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (1 GB); tests/fixtures/sampling holds its answers")
    spec = importlib.util.spec_from_file_location("sampling", FIXTURES / "make" / "sampling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


@pytest.mark.parametrize("name", ["rows", "beams"])
def test_the_stored_answers_are_those_of_transformers(made, name):
    stored = json.loads((FIXTURES / "sampling" / f"{name}.json").read_text())
    assert len(stored) == len(made[name])
    for old, new in zip(stored, made[name]):
        assert_equal(old, json.loads(json.dumps(new)))


def assert_equal(old, new):
    """Exactly, but for the last digits of numbers."""
    if isinstance(old, dict):
        assert old.keys() == new.keys()
        for key in old:
            assert_equal(old[key], new[key])
    elif isinstance(old, list):
        assert len(old) == len(new)
        for a, b in zip(old, new):
            assert_equal(a, b)
    elif isinstance(old, float):
        assert new == pytest.approx(old, rel=1e-5, abs=1e-6)
    else:
        assert old == new
