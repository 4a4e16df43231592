"""Translations, recordings and embeddings at once: each gets what it would get alone, and what ends is freed."""
import concurrent.futures
import http.client
import json

import httpx
import pytest
from command_line import succeed
from running_server import RunningServer
from server_models import recording
from test_load import metric, wait_for

SENTENCES = ["Good morning.", "How are you today?", "The cat sat on the mat.", "I would like a cup of tea, please.", "It is raining again.",
             "We went to the market and bought some apples and a loaf of bread."]
LABELS = '{model="en-zh"}'
LONG = {"model": "en-zh", "input": SENTENCES * 170, "beams": 64}  # minutes


def translation(i):
    return {"model": "en-zh", "input": [SENTENCES[(i + n) % len(SENTENCES)] for n in range(1 + i % 4)], "beams": 1 + i % 4, "user": f"user {i % 3}"}


def test_translations_recordings_and_embeddings_at_once_are_what_they_are_alone(server):
    def ask(i):
        if i % 4 == 3:
            form = {"model": "listener", "response_format": "verbose_json"}
            return httpx.post(server.url + "/v1/audio/transcriptions", data=form, files={"file": ("a.wav", recording())}, timeout=60).json()["segments"]
        if i % 4 == 2:
            return httpx.post(server.url + "/v1/embeddings", json={"model": "embedder", "input": SENTENCES[:1 + i % 5]}, timeout=60).json()["data"]
        return httpx.post(server.url + "/v1/translations", json=translation(i), timeout=60).json()["data"]

    def ask_beside_one_that_goes(i):
        if i % 8 == 1:
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(server.url + "/v1/translations", json=LONG, timeout=httpx.Timeout(30, read=0.3))
        return ask(i)

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        together = list(pool.map(ask_beside_one_that_goes, range(48)))
    for i in range(0, 48, 5):
        assert together[i] == ask(i)
    for i in (0, 4, 5):
        texts = translation(i)["input"]
        expected = succeed("translate", "en-zh", "--beams", translation(i)["beams"], text="\n".join(texts)).splitlines()
        assert [entry["text"] for entry in together[i]] == expected


def test_a_client_that_goes_cancels_its_translations(server):
    wait_for(lambda: metric(server.url, "kvik_running", LABELS) == 0)
    cancelled = metric(server.url, "kvik_cancelled_total", LABELS)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/translations", json.dumps(LONG), {"content-type": "application/json"})
    wait_for(lambda: metric(server.url, "kvik_running", LABELS) > 0)
    connection.close()
    wait_for(lambda: metric(server.url, "kvik_cancelled_total", LABELS) == cancelled + 1 and metric(server.url, "kvik_running", LABELS) == 0)


def test_a_full_queue_is_a_429_and_a_timeout_a_504():
    with RunningServer("en-zh", "--max-sequences", 1, "--queue", 2, "--timeout", 1) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: httpx.post(server.url + "/v1/translations", json=LONG, timeout=60), range(8)))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {429, 504}
        assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 429)
        assert metric(server.url, "kvik_rejections_total", LABELS) == statuses.count(429)
        assert httpx.post(server.url + "/v1/translations", json=translation(0), timeout=60).status_code == 200


def test_the_server_stops_while_tasks_run():
    with RunningServer("en-zh", "--grace", 0) as server:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = [pool.submit(httpx.post, server.url + "/v1/translations", json=LONG, timeout=60) for _ in range(4)]
            wait_for(lambda: metric(server.url, "kvik_running", LABELS) > 0)
            assert server.stop() == 0
            for one in running:
                assert one.exception() is not None or one.result().status_code == 503


def test_the_prompt_is_shown_with_its_log_probabilities(server):
    prompts = ["Once upon a time", "A fox", "The old wolf had never seen the sea."]
    body = {"model": "fable", "prompt": prompts, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    together = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["choices"]
    for prompt, choice in zip(prompts, together):
        alone = httpx.post(server.url + "/v1/completions", json={**body, "prompt": prompt}, timeout=60).json()["choices"][0]
        assert choice["logprobs"] == alone["logprobs"] and choice["text"].startswith(prompt)
        assert choice["logprobs"]["token_logprobs"][0] is None and all(value < 0 for value in choice["logprobs"]["token_logprobs"][1:])
