"""Many at once: each gets what it would get alone, none disturbs another, and what ends is freed."""
import concurrent.futures
import json
import re
import signal

import httpx
import openai
import pytest
from command_line import succeed
from running_server import RunningServer

STORY = "Once upon a time, in a deep forest, there lived an old wolf who had never seen the sea. "


def metric(url, name, labels='{model="fable"}'):
    found = re.search(rf"^{re.escape(name + labels)} (\S+)$", httpx.get(url + "/metrics").text, re.M)
    return float(found.group(1)) if found else 0.0


def wait_for(condition):
    for _ in range(5000):
        if condition():
            return
    pytest.fail("it did not happen")


def request(i):
    prompt = STORY[:8 + i * 7 % 60] if i % 5 else STORY * 3 + str(i)
    return {"model": "fable", "prompt": prompt, "max_tokens": 5 + i * 5 % 30, "temperature": 0.9, "seed": i % 8, "user": f"user {i % 3}"}


def test_64_requests_at_once_get_the_texts_they_would_get_alone(client):
    wanted = [request(i) for i in range(64)]
    alone = {}
    for one in wanted:
        key = (one["prompt"], one["max_tokens"], one["seed"])
        if key not in alone:
            alone[key] = None
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def run(key):
            alone[key] = json.loads(succeed("run", "fable", key[0], "-n", key[1], "--temperature", 0.9, "--seed", key[2], "--threads", 1, "--json"))["text"]
        list(pool.map(run, list(alone)[::3]))

    def ask(i):
        one = wanted[i]
        if i % 4 == 3:  # goes after a few tokens
            with client.completions.create(**{**one, "max_tokens": 400}, stream=True) as stream:
                next(iter(stream))
            return None
        if i % 2:
            return "".join(chunk.choices[0].text for chunk in client.completions.create(**one, stream=True))
        return client.completions.create(**one).choices[0].text
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        texts = list(pool.map(ask, range(64)))
    n_checked = 0
    for one, text in zip(wanted, texts):
        expected = alone[one["prompt"], one["max_tokens"], one["seed"]]
        if text is not None and expected is not None:
            assert text == expected
            n_checked += 1
    assert n_checked >= 10


def test_a_client_that_goes_frees_its_place(server):
    cancelled, generated = (metric(server.url, name) for name in ("kvik_cancelled_total", "kvik_generated_tokens_total"))
    body = {"model": "fable", "prompt": "Once", "max_tokens": 900, "extra": 1, "ignore_eos": True}
    with httpx.stream("POST", server.url + "/v1/completions", json={**body, "stream": True}) as stream:
        next(stream.iter_lines())
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + "/v1/completions", json={**body, "n": 16, "temperature": 1}, timeout=httpx.Timeout(30, read=0.2))
    wait_for(lambda: metric(server.url, "kvik_cancelled_total") == cancelled + 2 and metric(server.url, "kvik_running") == 0)
    assert metric(server.url, "kvik_generated_tokens_total") - generated < 17 * 900 / 2  # they did not run to their end


def test_a_full_queue_is_a_429_and_a_timeout_a_504():
    with RunningServer("fable", "--max-sequences", 1, "--queue", 4, "--timeout", 1) as server:
        body = {"model": "fable", "prompt": "Once", "max_tokens": 1000, "ignore_eos": True, "n": 3, "temperature": 1}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: httpx.post(server.url + "/v1/completions", json=body, timeout=60), range(8)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and all(answer.headers["retry-after"] for answer in refused)
        assert {answer.status_code for answer in answers} <= {200, 429, 504}
        assert metric(server.url, "kvik_rejections_total") == len(refused)
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        endless = client.completions.create(model="fable", prompt="Once", n=4, max_tokens=1000, temperature=1, stream=True, extra_body={"ignore_eos": True})
        with pytest.raises(openai.APIError):
            for _ in endless:
                pass


def test_models_share_a_memory_budget_and_idle_ones_are_unloaded():
    both = sum(json.loads(succeed("inspect", model, "--json"))["weights"]["bytes"] for model in ("fable", "en-zh"))
    with RunningServer("fable", "en-zh", "--memory-bytes", both - 1, "--idle-unload", 2) as server:
        def ask(model):
            return httpx.post(server.url + "/v1/completions", json={"model": model, "prompt": "Once", "max_tokens": 2}, timeout=60).status_code
        def loaded():
            return {entry["name"] for entry in httpx.get(server.url + "/api/ps").json()["models"]}
        assert ask("fable") == 200 and loaded() == {"fable"}
        assert ask("en-zh") == 200 and loaded() == {"en-zh"}
        assert ask("fable") == 200 and loaded() == {"fable"}
        for _ in range(3000):
            if not loaded():
                break
        assert not loaded() and httpx.get(server.url + "/health").json()["status"] == "ok"
        assert metric(server.url, "kvik_model_unloads_total", "") >= 2


def test_a_model_that_need_not_be_kept_is_not_loaded_twice():
    with RunningServer("fable") as server:
        unused = "x" * 4_000_000  # copied while the model could be unloaded

        def ask(prompt, keep_alive):
            body = {"model": "fable", "prompt": prompt, "keep_alive": keep_alive, "stream": False, "options": {"num_predict": 1}, "raw": True, "system": unused}
            return httpx.post(server.url + "/api/generate", json=body, timeout=60).status_code
        for _ in range(5):
            assert ask("", 300) == 200
            n_loads = metric(server.url, "kvik_model_loads_total", "")
            assert ask("Once", 0) == 200 and metric(server.url, "kvik_model_loads_total", "") == n_loads
            wait_for(lambda: not httpx.get(server.url + "/api/ps").json()["models"])


@pytest.mark.parametrize("how, expected", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_requests_end_before_the_server_does(how, expected):
    with RunningServer("fable") as server:
        with httpx.stream("POST", server.url + "/v1/completions", json={"model": "fable", "prompt": "Once", "max_tokens": 300, "stream": True, "ignore_eos": True}, timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.process.send_signal(how)
            rest = list(lines)
        assert rest[-2:] == ["data: [DONE]", ""]
        assert server.process.wait(30) == expected
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health")


def test_metrics_are_there_from_the_start():
    with RunningServer("fable") as server:
        text = httpx.get(server.url + "/metrics").text
    for name in ("waiting", "running", "rejections_total", "cancelled_total", "preempted_total", "prompt_tokens_total", "generated_tokens_total", "prefix_hits_total",
                 "cache_used_bytes", "first_token_seconds_count", "token_seconds_count", "mask_seconds_count"):
        assert f'kvik_{name}{{model="fable"}} 0\n' in text, name


def test_metrics_count_what_was_done(server, client):
    labels = '{model="fable"}'
    before = {name: metric(server.url, name) for name in ("kvik_generated_tokens_total", "kvik_reused_tokens_total", "kvik_prefix_hits_total", "kvik_first_token_seconds_count")}
    for _ in range(2):
        client.completions.create(model="fable", prompt="A fox and a bear. " * 12, max_tokens=7, temperature=0)
    assert metric(server.url, "kvik_generated_tokens_total") == before["kvik_generated_tokens_total"] + 14
    assert metric(server.url, "kvik_reused_tokens_total") >= before["kvik_reused_tokens_total"] + 32
    assert metric(server.url, "kvik_prefix_hits_total") > before["kvik_prefix_hits_total"]
    assert metric(server.url, "kvik_first_token_seconds_count") == before["kvik_first_token_seconds_count"] + 2
    assert metric(server.url, "kvik_token_seconds_count", labels) > 0
    assert metric(server.url, "kvik_cache_used_bytes") > 0 and metric(server.url, "kvik_waiting") == 0
    assert metric(server.url, "kvik_requests_total", '{endpoint="/v1/completions",status="200"}') > 0


def test_choices_of_one_request_compute_their_prompt_once(server, client):
    prompt = "There was a tailor who sewed coats for foxes, hares and owls. " * 8
    computed = metric(server.url, "kvik_prompt_tokens_total")
    answer = client.completions.create(model="fable", prompt=prompt, n=6, max_tokens=2, temperature=1)
    assert metric(server.url, "kvik_prompt_tokens_total") - computed < 2 * answer.usage.prompt_tokens


def test_a_user_with_fewer_running_requests_is_next():
    """One user has all places and waits for more; another's request is next all the same, whichever interface says who it is."""
    endless = {"model": "fable", "max_tokens": 900, "ignore_eos": True, "user": "greedy", "stream": True, "use_cache": False}  # every token takes longer
    with RunningServer("fable", "--max-sequences", 2) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        for path, prompt in (("/v1/completions", {"prompt": "Once"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Once"}]})):
            order = []

            def ask(user):
                httpx.post(server.url + path, json={"model": "fable", **prompt, "user": user, "max_tokens": 5}, timeout=60)
                order.append(user)
            with httpx.stream("POST", server.url + path, json={**endless, **prompt}) as one, httpx.stream("POST", server.url + path, json={**endless, **prompt}) as other:
                lines = one.iter_lines(), other.iter_lines()  # kept: a generator that is dropped closes its stream
                assert all(next(each) for each in lines)
                asked = [pool.submit(ask, "greedy") for _ in range(2)]
                wait_for(lambda: metric(server.url, "kvik_waiting") == 2)
                asked.append(pool.submit(ask, "modest"))
                wait_for(lambda: metric(server.url, "kvik_waiting") == 3)
                other.close()
                concurrent.futures.wait(asked)
            assert order == ["modest", "greedy", "greedy"]
