"""The unmodified client of Ollama against `kvik serve`."""
import datetime
import json

import ollama
import pytest
from command_line import succeed
from server_models import NAMES

PROMPT = "Once upon a time"
GREEDY = {"num_predict": 20, "temperature": 0}


@pytest.fixture(scope="module")
def expected():
    return json.loads(succeed("run", "fable", PROMPT, "-n", 20, "--temperature", 0, "--json"))


def refused(call, status):
    with pytest.raises(ollama.ResponseError) as caught:
        call()
    assert caught.value.status_code == status, caught.value
    return caught.value.error


def test_generate(llama, expected):
    answer = llama.generate("fable", PROMPT, options=GREEDY)
    assert answer.response == expected["text"]
    assert answer.done and answer.done_reason == "length"
    assert answer.eval_count == 20 and answer.prompt_eval_count == len(expected["prompt_ids"])
    assert answer.total_duration >= answer.eval_duration > 0
    assert answer.prompt_eval_duration is not None and answer.load_duration is not None and answer.created_at
    assert answer.context == expected["prompt_ids"] + expected["ids"]


def test_generate_in_parts(llama, expected):
    parts = list(llama.generate("fable:latest", PROMPT, options=GREEDY, stream=True))
    assert "".join(part.response for part in parts) == expected["text"]
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len(parts) > 1  # tokens that come fast may share one


def test_a_context_continues_where_it_ended(llama):
    first = llama.generate("fable", PROMPT, options={"num_predict": 8, "temperature": 0})
    second = llama.generate("fable", " and", context=first.context, raw=True, options={"num_predict": 8, "temperature": 0})
    ids = first.context + json.loads(succeed("tokenize", "fable", "--json-lines", text='{"text": " and", "special": false}\n'))["ids"]
    alone = json.loads(succeed("run", "fable", "--ids", ",".join(map(str, ids)), "-n", 8, "--temperature", 0, "--json"))
    assert second.response == alone["text"]


def test_options_are_those_of_the_command_line(llama):
    alone = json.loads(succeed("run", "fable", PROMPT, "-n", 20, "--temperature", 0.9, "--top-k", 50, "--top-p", 0.9, "--min-p", 0.01, "--seed", 3,
                               "--repetition-penalty", 1.1, "--stop", "king", "--json"))
    options = {"num_predict": 20, "temperature": 0.9, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "seed": 3, "repeat_penalty": 1.1, "stop": ["king"]}
    assert llama.generate("fable", PROMPT, options=options).response == alone["text"]


def test_chat(llama, expected):
    messages = [{"role": "user", "content": PROMPT}]
    answer = llama.chat("fable", messages, options=GREEDY)
    assert answer.message.content == expected["text"] and answer.message.role == "assistant"
    parts = list(llama.chat("fable", messages, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == expected["text"]
    assert parts[-1].done_reason == "length" and parts[-1].eval_count == 20


def test_a_system_text_goes_through_the_template(llama):
    answer = llama.generate("talker", "Hello", system="Be brief.", options=GREEDY)
    prompt = "<|system|>Be brief.<|end|>\n<|user|>Hello<|end|>\n<|assistant|>"
    ids = json.loads(succeed("tokenize", "fable", "--json-lines", text=json.dumps({"text": prompt, "special": False}) + "\n"))["ids"]
    assert answer.context[:len(ids)] == ids


def test_a_translation_model_translates(llama):
    expected = succeed("translate", "en-zh", "How are you today?").strip()
    assert llama.generate("en-zh", "How are you today?").response == expected
    assert llama.chat("en-zh", [{"role": "user", "content": "How are you today?"}]).message.content == expected


def test_json_and_schemas(llama):
    assert json.loads(llama.generate("fable", PROMPT, format={"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"],
                                                              "additionalProperties": False}).response)["n"] in (1, 22)
    assert "format" in refused(lambda: llama.generate("fable", PROMPT, format={"type": "nothing"}), 400)


def test_models_are_listed_shown_loaded_and_unloaded(llama):
    assert [model.model for model in llama.list().models] == ["fable", "en-zh", *NAMES]
    shown = llama.show("talker")
    assert shown.details.format == "onnx" and shown.capabilities == ["completion", "tools"]
    assert shown.details.parameter_size == "7.0M" and shown.details.quantization_level == "F16"
    assert refused(lambda: llama.show("nothing"), 404)
    assert llama.generate("talker", "").done_reason == "load"
    assert "talker" in [model.model for model in llama.ps().models]
    assert llama.generate("talker", "", keep_alive=0).done_reason == "unload"
    for _ in range(1000):
        if "talker" not in [model.model for model in llama.ps().models]:
            break
    else:
        pytest.fail("it is still loaded")
    def time_left():
        return next(model.expires_at for model in llama.ps().models if model.model == "talker") - datetime.datetime.now(datetime.timezone.utc)
    assert llama.generate("talker", "", keep_alive=0).done_reason == "unload"  # it is not loaded
    assert llama.generate("talker", PROMPT, options={"num_predict": 1}).eval_count == 1
    assert time_left() > datetime.timedelta(days=365)  # the time of a request ends with the load
    assert llama.generate("talker", PROMPT, options={"num_predict": 1}, keep_alive="5m").eval_count == 1
    assert datetime.timedelta(minutes=4) < time_left() <= datetime.timedelta(minutes=5)


def test_embeddings(llama, models):
    texts = ["Hello world", "one two three"]
    expected = json.loads(succeed("embed", models / "embedder", "--json", text="\n".join(texts)))["embeddings"]
    answer = llama.embed("embedder", texts)
    assert [list(vector) for vector in answer.embeddings] == [pytest.approx(vector, abs=1e-6) for vector in expected]
    assert answer.prompt_eval_count > 0
    assert list(llama.embeddings("embedder", texts[0]).embedding) == pytest.approx(expected[0], abs=1e-6)
    assert "embeddings" in refused(lambda: llama.embed("en-zh", "x"), 400)


def test_what_is_not_supported_is_named(llama, http):
    assert "template" in refused(lambda: llama.generate("fable", PROMPT, template="{{ .Prompt }}"), 400)
    assert "suffix" in refused(lambda: llama.generate("fable", PROMPT, suffix="end"), 400)
    assert "keep_alive" in refused(lambda: llama.generate("fable", PROMPT, keep_alive="soon"), 400)
    assert "options.temperature" in http.post("/api/generate", json={"model": "fable", "prompt": "x", "options": {"temperature": "hot"}}).json()["error"]
    assert refused(lambda: llama.pull("some/model"), 403)
    assert llama.pull("fable").status == "success"


def test_version(http):
    assert http.get("/api/version").json()["version"]
