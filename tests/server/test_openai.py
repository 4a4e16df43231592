"""The unmodified client of OpenAI against `kvik serve`: each text is what `kvik run` prints."""
import json

import openai
import pytest
from command_line import succeed
from server_models import NAMES

PROMPT = "Once upon a time"


def alone(prompt=PROMPT, *options, n=20):
    return json.loads(succeed("run", "fable", prompt, "-n", n, "--json", *options))


@pytest.fixture(scope="module")
def greedy():
    return alone(PROMPT, "--temperature", 0)


def complete(client, **options):
    return client.completions.create(**{"model": "fable", "prompt": PROMPT, "max_tokens": 20, "temperature": 0, **options})


def chat(client, **options):
    messages = [{"role": "user", "content": PROMPT}]
    return client.chat.completions.create(**{"model": "fable", "messages": messages, "max_tokens": 20, "temperature": 0, **options})


def refused(call, status=400):
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    assert caught.value.status_code == status, caught.value
    return caught.value


def test_a_completion_is_the_text_of_the_command_line(client, greedy):
    answer = complete(client)
    choice = answer.choices[0]
    assert choice.text == greedy["text"]
    assert choice.finish_reason == "length"
    assert answer.object == "text_completion" and answer.model == "fable" and answer.id.startswith("cmpl-")
    assert answer.usage.completion_tokens == 20
    assert answer.usage.prompt_tokens == len(greedy["prompt_ids"])
    assert answer.usage.total_tokens == 20 + len(greedy["prompt_ids"])


def test_a_chat_is_the_text_of_the_command_line(client, greedy):
    answer = chat(client)
    assert answer.choices[0].message.content == greedy["text"]
    assert answer.choices[0].message.role == "assistant"
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.system_fingerprint.startswith("fp_")


def test_a_stream_has_the_same_text_in_parts(client, greedy):
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == greedy["text"]
    assert len(chunks) > 1  # tokens that come fast may share one
    assert chunks[-1].usage.completion_tokens == 20 and chunks[-1].choices == []
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_chat_stream_has_the_same_text_in_parts(client, greedy):
    chunks = list(chat(client, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == greedy["text"]
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in chunks)


def test_sampling_options_are_those_of_the_command_line(client):
    expected = alone(PROMPT, "--temperature", 0.8, "--top-p", 0.9, "--seed", 7, "--presence-penalty", 0.5, "--frequency-penalty", 0.25)
    answer = complete(client, temperature=0.8, top_p=0.9, seed=7, presence_penalty=0.5, frequency_penalty=0.25)
    assert answer.choices[0].text == expected["text"]


def test_choices_of_one_request_have_seeds_that_follow_each_other(client):
    answer = chat(client, temperature=0.9, seed=5, n=3)
    texts = [choice.message.content for choice in answer.choices]
    assert texts == [alone(PROMPT, "--temperature", 0.9, "--seed", seed)["text"] for seed in (5, 6, 7)]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage.completion_tokens == 60
    streamed = ["", "", ""]
    for chunk in chat(client, temperature=0.9, seed=5, n=3, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == texts


def test_the_best_of_several_choices_is_returned(client):
    every = complete(client, temperature=0.9, seed=5, n=4, logprobs=0).choices
    means = [sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs) for choice in every]
    best = complete(client, temperature=0.9, seed=5, best_of=4).choices
    assert [choice.text for choice in best] == [every[means.index(max(means))].text]


def test_several_prompts_are_answered_in_order(client):
    answer = complete(client, prompt=["Once upon a time", "There was a wolf"], n=2, seed=1, temperature=0.8)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    expected = [alone(prompt, "--temperature", 0.8, "--seed", seed)["text"] for prompt in ("Once upon a time", "There was a wolf") for seed in (1, 2)]
    assert [choice.text for choice in answer.choices] == expected


def test_token_ids_are_a_prompt_too(client, greedy):
    assert complete(client, prompt=greedy["prompt_ids"]).choices[0].text == greedy["text"]


def test_a_stop_text_ends_the_answer_and_is_not_part_of_it(client, greedy):
    word = greedy["text"].split()[3]
    answer = complete(client, stop=[word])
    assert answer.choices[0].text == greedy["text"][:greedy["text"].index(word)]
    assert answer.choices[0].finish_reason == "stop"


def test_a_bias_forbids_a_token(client, greedy):
    banned = greedy["ids"][0]
    answer = complete(client, logit_bias={str(banned): -100}, max_tokens=1, logprobs=0)
    assert answer.choices[0].text != complete(client, max_tokens=1).choices[0].text


def test_logprobs_are_those_of_score(client, greedy):
    ids = greedy["prompt_ids"] + greedy["ids"]
    scored = json.loads(succeed("score", "fable", "--ids", ",".join(map(str, ids)), "--json"))["logprobs"][-20:]
    content = chat(client, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert [token.logprob for token in content] == pytest.approx(scored, abs=1e-6)
    assert "".join(token.token for token in content) == greedy["text"]
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == max(other.logprob for other in token.top_logprobs)
        assert bytes(token.bytes).decode() == token.token
    streamed = [token for chunk in chat(client, logprobs=True, stream=True) if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.content]
    assert [token.logprob for token in streamed] == [token.logprob for token in content]


def test_an_echo_has_the_prompt_and_its_logprobs(client, greedy):
    choice = complete(client, echo=True, logprobs=1).choices[0]
    assert choice.text == PROMPT + greedy["text"]
    n_prompt = len(greedy["prompt_ids"])
    assert choice.logprobs.token_logprobs[0] is None
    assert len(choice.logprobs.token_logprobs) == n_prompt + 20
    scored = json.loads(succeed("score", "fable", "--ids", ",".join(map(str, greedy["prompt_ids"] + greedy["ids"])), "--json"))["logprobs"]
    assert choice.logprobs.token_logprobs[1:] == pytest.approx(scored, abs=1e-6)
    assert choice.logprobs.text_offset[n_prompt] == len(PROMPT)
    assert complete(client, echo=True, logprobs=1, max_tokens=0).choices[0].text == PROMPT


def test_models_are_listed_and_found(client):
    assert [model.id for model in client.models.list()] == ["fable", "en-zh", *NAMES]
    assert client.models.retrieve("fable").owned_by == "kvik"
    assert refused(lambda: client.models.retrieve("nothing"), 404).code == "model_not_found"


def test_a_translation_model_translates_the_last_message_of_the_user(client):
    expected = succeed("translate", "en-zh", "How are you today?").strip()
    messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": "How are you today?"}]
    assert client.chat.completions.create(model="en-zh", messages=messages).choices[0].message.content == expected
    chunks = client.chat.completions.create(model="en-zh", messages=messages, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected
    assert client.completions.create(model="en-zh", prompt="How are you today?").choices[0].text == expected


def test_a_translation_model_answers_every_prompt_and_refuses_what_it_does_not_do(client, http):
    texts = ["How are you today?", "The weather is good."]
    expected = [succeed("translate", "en-zh", text).strip() for text in texts]
    assert [choice.text for choice in client.completions.create(model="en-zh", prompt=texts).choices] == expected
    streamed = {chunk.choices[0].index: chunk.choices[0].text for chunk in client.completions.create(model="en-zh", prompt=texts, stream=True)}
    assert [streamed[0], streamed[1]] == expected
    for more in ({"prompt": [1, 2, 3]}, {"n": 2}, {"best_of": 2}, {"logprobs": 1}, {"echo": True}):
        answer = http.post("/v1/completions", json={"model": "en-zh", "prompt": texts[0], **more})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == next(iter(more))
    for more in ({"n": 2}, {"logprobs": True}):
        answer = http.post("/v1/chat/completions", json={"model": "en-zh", "messages": [{"role": "user", "content": texts[0]}], **more})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == next(iter(more))
    assert http.post("/api/generate", json={"model": "en-zh", "prompt": texts[0], "logprobs": True}).status_code == 400


def test_translations(http):
    texts = ["How are you today?", "The weather is good."]
    expected = [line for line in succeed("translate", "en-zh", "--beams", 4, text="\n".join(texts)).splitlines()]
    answer = http.post("/v1/translations", json={"model": "en-zh", "input": texts, "beams": 4}).json()
    assert [entry["text"] for entry in answer["data"]] == expected
    assert http.post("/v1/translations", json={"model": "en-zh", "input": texts[0], "beams": 4}).json()["data"][0]["text"] == expected[0]
    assert http.post("/v1/translations", json={"model": "fable", "input": "x"}).status_code == 400


def test_content_may_be_parts_of_text(client, greedy):
    parts = [{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"}]
    assert chat(client, messages=[{"role": "user", "content": parts}]).choices[0].message.content == greedy["text"]
    assert "a text or a list of parts" in refused(lambda: chat(client, messages=[{"role": "user", "content": 5}])).message
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert chat(client, messages=[refusal, {"role": "user", "content": parts}]).usage.prompt_tokens > chat(client, messages=[{"role": "user", "content": parts}]).usage.prompt_tokens
    image = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]
    assert "messages[0].content[0].type" in refused(lambda: chat(client, messages=[{"role": "user", "content": image}])).message


def test_errors_name_the_field(client):
    assert refused(lambda: complete(client, model="nothing"), 404).code == "model_not_found"
    assert refused(lambda: complete(client, temperature=7)).param == "temperature"
    assert refused(lambda: complete(client, n=10_000)).param == "n"
    assert refused(lambda: complete(client, suffix="end")).param == "suffix"
    assert refused(lambda: complete(client, logit_bias={"x": 1})).param == "logit_bias.x"
    assert refused(lambda: chat(client, messages=[])).param == "messages"
    assert refused(lambda: chat(client, messages=[{"role": "user", "content": 5}])).param == "messages[0].content"
    assert refused(lambda: chat(client, extra_body={"top_p": "much"})).param == "top_p"
    long = "word " * 5000
    for error, field in ((refused(lambda: complete(client, prompt=long)), "prompt"), (refused(lambda: chat(client, messages=[{"role": "user", "content": long}])), "messages")):
        assert error.code == "context_length_exceeded" and error.param == field
    assert refused(lambda: complete(client, prompt=[5_000_000])).status_code == 400
    assert refused(lambda: client.completions.create(model="fable", prompt="x", extra_body={"prompt": {}})).param == "prompt"
