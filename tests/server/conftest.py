import httpx
import ollama
import openai
import pytest
from running_server import RunningServer
from server_models import NAMES, make_models


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(models):
    with RunningServer("fable", "en-zh", *(models / name for name in NAMES), "--max-sequences", "32") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def llama(server):
    return ollama.Client(host=server.url, timeout=60)


@pytest.fixture(scope="session")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as plain:
        yield plain
