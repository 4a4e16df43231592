"""The Ray Serve application on a real cluster of two nodes on this machine."""
import concurrent.futures
import itertools
import json
import os
import pathlib
import signal
import threading
import time

import httpx
import kvik
import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

import kvik.ray

N_STREAMS = 200


@pytest.fixture(scope="module")
def url():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": 18231})
    serve.run(kvik.ray.app({"model": "fable", "min_replicas": 2, "max_replicas": 2, "num_cpus": 1, "max_requests": 128}), name="kvik")
    yield "http://127.0.0.1:18231"
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def model():
    return kvik.Model("fable", threads=1)


def prompt(i):
    return f"Story {i}: once upon a time there was a {['king', 'fox', 'cat', 'hen'][i % 4]}"


def stream(client, url, i, n_tokens=24, on_begin=lambda: None):
    """The text, whether it ended as streams end, and whether its replica was lost."""
    body = {"model": "fable", "prompt": prompt(i), "max_tokens": n_tokens, "temperature": 0, "stream": True}
    text, ended, lost = "", False, False
    with client.stream("POST", url + "/v1/completions", json=body) as response:
        assert response.status_code == 200, response.read()
        for line in response.iter_lines():
            if line == "data: [DONE]":
                ended = True
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                if not text:
                    on_begin()
                lost = lost or event.get("error", {}).get("code") == "replica_lost"
                text += "".join(choice["text"] for choice in event.get("choices", []))
    return text, ended, lost


def streams(url, n, **more):
    limits = httpx.Limits(max_connections=None)
    with httpx.Client(timeout=300, limits=limits) as client, concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda i: stream(client, url, i, **more), range(n)))


def replicas():
    """Process ids of the replicas."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_text()
        except OSError:
            continue  # it has ended
        if title.startswith("ray::ServeReplica:kvik:KvikReplica"):
            found.append(int(process.name))
    return found


def test_health_models_and_errors_come_through(url):
    assert httpx.get(url + "/health", timeout=60).json()["status"] == "ok"
    assert [each["id"] for each in httpx.get(url + "/v1/models", timeout=60).json()["data"]] == ["fable"]
    refused = httpx.post(url + "/v1/completions", json={"model": "fable", "prompt": "x", "max_tokens": -1}, timeout=60)
    assert refused.status_code == 400 and "error" in refused.json()


def test_answers_of_many_streams_equal_those_of_one_process(url, model):
    found = streams(url, N_STREAMS)
    assert all(ended and not lost for _, ended, lost in found)
    expected = [model.generate(prompt(i), max_tokens=24, do_sample=False).text() for i in range(N_STREAMS)]
    assert [text for text, _, _ in found] == expected


def test_prompts_with_one_beginning_go_to_one_replica(url):
    system = "You tell stories. " * 60
    bodies = [{"model": "fable", "prompt": system + "Once upon a time" + " and then" * i, "max_tokens": 2, "temperature": 0} for i in range(6)]
    reused = [httpx.post(url + "/v1/completions", json=body, timeout=60).json()["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0) for body in bodies]
    assert all(n > 100 for n in reused[1:]), reused
    assert len(replicas()) == 2


def test_a_disconnected_client_cancels_its_generation(url):
    body = {"model": "fable", "prompt": "Once", "max_tokens": 900, "temperature": 0, "stream": True, "ignore_eos": True, "min_tokens": 900}
    with httpx.Client(timeout=60) as client:
        with client.stream("POST", url + "/v1/completions", json=body) as response:
            next(response.iter_lines())
    deadline = time.monotonic() + 30
    while any(httpx.get(url + "/health", timeout=60).json()["running"] for _ in range(4)):
        assert time.monotonic() < deadline, "it is still running"


def test_a_lost_replica_disturbs_no_stream_of_the_other(url, model):
    expected = [model.generate(prompt(i), max_tokens=100, do_sample=False).text() for i in range(N_STREAMS)]
    victim = replicas()[0]
    begun = itertools.count(1)
    found = streams(url, N_STREAMS, n_tokens=100, on_begin=lambda: next(begun) == N_STREAMS // 2 and os.kill(victim, signal.SIGKILL))
    for (text, ended, lost), whole in zip(found, expected):
        assert ended != lost, "a stream ends with [DONE] or with an error"
        assert text == whole if ended else whole.startswith(text)
    assert victim not in replicas()
    deadline = time.monotonic() + 120
    while len(replicas()) < 2:
        assert time.monotonic() < deadline, "Ray has not replaced the replica"
        time.sleep(0.5)
    assert [text for text, _, _ in streams(url, 20)] == [model.generate(prompt(i), max_tokens=24, do_sample=False).text() for i in range(20)]
    print(f"{sum(lost for _, _, lost in found)} of {N_STREAMS} streams had begun on the lost replica and ended with an error")


def test_replicas_are_added_under_load_and_removed_after_it(url, model):
    scaling = {"model": "fable", "min_replicas": 1, "max_replicas": 3, "target_requests": 2, "num_cpus": 1, "upscale_delay_s": 1, "downscale_delay_s": 2}
    serve.run(kvik.ray.app(scaling), name="kvik")
    wait_for(lambda: len(replicas()) == 1, "one replica without load")
    done = threading.Event()
    texts = {}

    def load(i):
        while not done.is_set():
            texts[i], ended, lost = stream(client, url, i, n_tokens=100)
            assert ended and not lost

    with httpx.Client(timeout=300, limits=httpx.Limits(max_connections=None)) as client, concurrent.futures.ThreadPoolExecutor(12) as pool:
        loads = [pool.submit(load, i) for i in range(12)]
        try:
            wait_for(lambda: len(replicas()) == 3, "three replicas under load")
        finally:
            done.set()
        for each in loads:
            each.result()
    assert texts == {i: model.generate(prompt(i), max_tokens=100, do_sample=False).text() for i in texts}
    wait_for(lambda: len(replicas()) == 1, "one replica after it")
    assert stream(httpx.Client(timeout=60), url, 0)[0] == model.generate(prompt(0), max_tokens=24, do_sample=False).text()


def wait_for(condition, what):
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, f"{what}: there are {len(replicas())}"
        time.sleep(0.5)
