"""Clients that let the server download a model (/api/pull)."""
import json
import threading

import httpx
import ollama
import pytest
from command_line import ROOT
from running_server import RunningServer
from small_hub import Hub, Repository, serving

NAME = "org/tiny-model"
ZOO = ROOT / "tests/fixtures/zoo/qwen2"
FILES = {"config.json": (ZOO / "config.json").read_bytes(), "onnx/model.onnx": (ZOO / "model.onnx").read_bytes()}


@pytest.fixture(scope="module")
def hub():
    hub = Hub()
    hub.repositories[NAME] = Repository(FILES, large=["onnx/model.onnx"])
    hub.repositories["org/gated"] = Repository(FILES, gated=True)
    with serving(hub) as endpoint:
        hub.endpoint = endpoint
        yield hub


@pytest.fixture(scope="module")
def server(hub, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    environment = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), "HF_TOKEN": "", "HOME": str(home), "no_proxy": "*"}
    with RunningServer("fable", "--allow-pull", environment=environment) as running:
        yield running


def test_a_model_is_pulled_by_several_clients_at_once_and_runs(hub, server):
    lines = [None] * 4

    def pull(i):
        lines[i] = list(ollama.Client(host=server.url).pull(NAME, stream=True))
    threads = [threading.Thread(target=pull, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each[0].status == "pulling manifest" and each[-1].status == "success" for each in lines)
    assert [model["id"] for model in httpx.get(server.url + "/v1/models").json()["data"]] == ["fable", NAME]
    case = json.loads((ZOO / "expected.json").read_text())["cases"][0]
    body = {"model": NAME, "prompt": case["prompt_ids"], "max_tokens": 4, "temperature": 0, "logprobs": 0}
    assert httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["choices"][0]["logprobs"]["tokens"] == [str(id) for id in case["greedy_ids"][:4]]
    n_requests = len(hub.requests)
    assert ollama.Client(host=server.url).pull(NAME).status == "success"
    assert len(hub.requests) == n_requests


@pytest.mark.parametrize("name, status, words", [
    ("org/nothing", 502, "no such repository"), ("org/gated", 502, "HF_TOKEN"), ("../../etc/passwd", 400, "not a repository name"),
    ("http://127.0.0.1:9/x", 400, "not a repository name"), ("/etc/passwd", 400, "not a repository name"),
])
def test_a_model_that_cannot_be_pulled_is_an_error_that_says_why(server, name, status, words):
    answer = httpx.post(server.url + "/api/pull", json={"model": name, "stream": False}, timeout=60)
    assert answer.status_code == status and words in answer.json()["error"]
    with pytest.raises(ollama.ResponseError) as caught:
        list(ollama.Client(host=server.url).pull(name, stream=True))
    assert words in caught.value.error
    assert len(httpx.get(server.url + "/v1/models").json()["data"]) <= 2
