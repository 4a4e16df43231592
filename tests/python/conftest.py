"""Models that several tests of the Python package use."""
import kvik
import pytest

from command_line import FABLE, ROOT, TRANSLATOR


@pytest.fixture(scope="session")
def fable():
    return kvik.Model(FABLE, threads=1)


@pytest.fixture(scope="session")
def translator():
    return kvik.Model(TRANSLATOR, threads=1)


@pytest.fixture(scope="session")
def encoder():
    return kvik.Model(ROOT / "tests" / "fixtures" / "zoo" / "bert", threads=1)


@pytest.fixture(scope="session")
def speech():
    return kvik.Model(ROOT / "tests" / "fixtures" / "zoo" / "small-speech", threads=1)
