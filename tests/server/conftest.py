import httpx
import ollama
import openai
import pytest
from running_server import RunningServer


@pytest.fixture(scope="session")
def server():
    with RunningServer("fable", "en-zh", "--max-sequences", "32") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="session")
def llama(server):
    return ollama.Client(host=server.url)


@pytest.fixture(scope="session")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as plain:
        yield plain
