"""What clients send that is unusual but legal: fields that they set by default, other spellings of paths, and HTTP as proxies and old clients write it."""
import json
import socket

import httpx
import openai
import pytest
from command_line import succeed
from server_models import WEATHER

PROMPT = "Once upon a time"
MESSAGES = [{"role": "user", "content": PROMPT}]
TEXT = {"model": "fable", "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
CHAT = {"model": "fable", "messages": MESSAGES, "max_tokens": 4, "temperature": 0}


def answered(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_fields_that_clients_send_by_default_change_nothing(http):
    expected = answered(http.post("/v1/chat/completions", json=CHAT))["choices"]
    nothing = {name: None for name in ("stop", "max_completion_tokens", "n", "seed", "user", "tools", "tool_choice", "response_format", "logprobs", "top_logprobs", "logit_bias", "stream",
                                       "stream_options", "presence_penalty", "frequency_penalty", "top_p", "functions", "function_call", "audio", "prediction", "modalities", "best_of")}
    defaults = {"store": False, "metadata": {}, "reasoning_effort": "low", "verbosity": "low", "service_tier": "auto", "parallel_tool_calls": False, "safety_identifier": "x",
                "prompt_cache_key": "x", "user": "me", "tools": [], "tool_choice": "auto", "functions": [], "response_format": {"type": "text"}, "stop": [], "logit_bias": {}, "n": 1,
                "modalities": ["text"], "some_new_field": {"of": ["a", "client"]}, "web_search_options": {}}
    for more in (nothing, defaults, {"stop": ""}, {"stop": [""]}, {"stop": [f"<stop {i}>" for i in range(64)]}, {"tool_choice": "none", "tools": [WEATHER]}):
        assert answered(http.post("/v1/chat/completions", json={**CHAT, **more}))["choices"] == expected, more
    text = answered(http.post("/v1/completions", json=TEXT))["choices"]
    for more in ({"suffix": None}, {"suffix": ""}, {"logprobs": None, "echo": None, "best_of": 1, "stop": None, "user": "me", "store": True}):
        assert answered(http.post("/v1/completions", json={**TEXT, **more}))["choices"] == text, more


def test_fields_that_would_change_the_answer_are_refused_by_name(http):
    for more in ({"modalities": ["text", "audio"]}, {"functions": [{"name": "f"}]}, {"audio": {"voice": "x"}}, {"stop": ["x"] * 65}):
        refused = http.post("/v1/chat/completions", json={**CHAT, **more})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == next(iter(more))
    for path, more in (("/v1/chat/completions", {"response_format": {"type": "json_object"}}), ("/v1/chat/completions", {"tools": [WEATHER]}),
                       ("/api/chat", {"format": "json"}), ("/api/chat", {"tools": [WEATHER]})):
        refused = http.post(path, json={"model": "en-zh", "messages": MESSAGES, **more})
        assert refused.status_code == 400 and next(iter(more)) in refused.text


def test_effort_and_thinking_reach_the_template(http):
    def prompt_tokens(path, **more):
        answer = answered(http.post(path, json={"model": "talker", "messages": MESSAGES, "max_tokens": 1, "options": {"num_predict": 1}, "stream": False, **more}))
        return answer["prompt_eval_count"] if path.startswith("/api") else answer["usage"]["prompt_tokens"]
    openai_path, ollama_path = "/v1/chat/completions", "/api/chat"
    for path, quiet, thinks, much in ((openai_path, {}, {"chat_template_kwargs": {"enable_thinking": True}}, {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": True}}),
                                      (ollama_path, {"think": False}, {"think": True}, {"think": "high"})):
        assert prompt_tokens(path, **quiet) < prompt_tokens(path, **thinks) < prompt_tokens(path, **much)
    assert prompt_tokens(openai_path, reasoning_effort="none") == prompt_tokens(openai_path)
    assert http.post(ollama_path, json={"model": "talker", "messages": MESSAGES, "think": 5}).status_code == 400


def test_logprobs_of_ollama_are_those_of_openai(http, llama):
    expected = answered(http.post("/v1/chat/completions", json={**CHAT, "logprobs": True, "top_logprobs": 2}))["choices"][0]["logprobs"]["content"]
    options = {"num_predict": 4, "temperature": 0}
    whole = llama.chat("fable", MESSAGES, options=options, logprobs=True, top_logprobs=2).logprobs
    parts = [token for part in llama.generate("fable", PROMPT, options=options, stream=True, logprobs=True, top_logprobs=2) for token in part.logprobs or []]
    for found in (whole, parts):
        assert [(token.token, token.logprob, [other.token for other in token.top_logprobs]) for token in found] == \
            [(token["token"], token["logprob"], [other["token"] for other in token["top_logprobs"]]) for token in expected]
    assert llama.chat("fable", MESSAGES, options=options).logprobs is None
    refused = http.post("/api/generate", json={"model": "fable", "prompt": PROMPT, "logprobs": True, "top_logprobs": 21})
    assert refused.status_code == 400 and "top_logprobs" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/v1/models/", "//v1/models", "/v1//models", "/v1/%6dodels", "/v1/models?limit=5", "/v1/models/fable/", "/health/", "/api/tags/"])
def test_paths_may_have_other_slashes_and_percent_codes(http, path):
    assert httpx.get(str(http.base_url).rstrip("/") + path).status_code == 200


def test_head_options_and_what_a_path_allows(http):
    for path in ("/", "/v1/models", "/api/tags", "/health"):
        assert http.head(path).status_code == 200 and http.head(path).text == ""
    assert http.put("/v1/models").headers["allow"] == "GET, HEAD"
    assert http.options("/v1/completions").headers["allow"] == "POST"


def talk(server, *parts):
    """What the server answers to raw bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        for part in parts:
            connection.sendall(part)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


def raw(path, body, version=b"1.1", *headers):
    lines = [b"POST %s HTTP/%s" % (path, version), b"host: localhost", b"content-type: application/json; charset=utf-8", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_a_client_that_waits_for_100_continue_gets_it_and_an_old_one_does_not(server):
    body = json.dumps(TEXT).encode()
    length = b"content-length: %d" % len(body)
    expecting = raw(b"/v1/completions", b"", b"1.1", length, b"expect: 100-Continue", b"connection: close")
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(expecting)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert b" 200 OK" in connection.recv(100)
    answer = talk(server, raw(b"/v1/completions", b"", b"1.0", length, b"expect: 100-continue"), body)
    assert answer.startswith("HTTP/1.1 200 OK") and "text_completion" in answer


def test_old_clients_keep_their_connection_only_if_they_ask(server):
    body = json.dumps(TEXT).encode()
    length = b"content-length: %d" % len(body)
    once, again = raw(b"/v1/completions", body, b"1.0", length), raw(b"/v1/completions", body, b"1.0", length, b"connection: keep-alive")
    assert talk(server, again + again + once).count("text_completion") == 3
    assert talk(server, once).count("text_completion") == 1


def test_lengths_that_contradict_each_other_are_refused(server):
    both = raw(b"/v1/completions", b"0\r\n\r\n", b"1.1", b"content-length: 3", b"transfer-encoding: chunked")
    assert talk(server, both).startswith("HTTP/1.1 400 ")


def test_keep_alive_may_have_any_form(llama):
    for form in ("5m", "1h30m", "-1", -1, "-1m", 0.5, 300, "0", 0):
        assert llama.generate("talker", "", keep_alive=form).done_reason == ("unload" if form in (0, "0") else "load")


def test_ollama_takes_options_that_it_does_not_know_and_empty_lists(http):
    body = {"model": "fable", "stream": False, "options": {"num_predict": 2, "num_ctx": 4096, "mirostat": 0, "stop": None, "some_new_option": [1]}}
    for path, more in (("/api/generate", {"prompt": PROMPT, "images": [], "suffix": "", "template": "", "system": "", "context": [], "format": "", "raw": False}),
                       ("/api/chat", {"messages": [{"role": "user", "content": PROMPT, "images": None, "tool_calls": None}], "tools": [], "format": None, "think": None})):
        assert answered(http.post(path, json={**body, **more}))["eval_count"] == 2
    assert answered(http.post("/api/embed", json={"model": "embedder", "input": []}))["embeddings"] == []


def test_several_calls_are_numbered_and_only_one_comes_if_the_client_wants_no_more(client):
    call = {"type": "object", "properties": {"name": {"const": "get_weather"}, "arguments": WEATHER["function"]["parameters"]}, "required": ["name", "arguments"], "additionalProperties": False}
    two = {"type": "json_schema", "json_schema": {"name": "calls", "schema": {"type": "array", "items": call, "minItems": 2, "maxItems": 2}}}  # what the model is made to write
    body = {"model": "talker", "messages": MESSAGES, "tools": [WEATHER], "response_format": two, "temperature": 1, "seed": 1}
    for parallel, n in ((True, 2), (False, 1)):
        message = client.chat.completions.create(**body, parallel_tool_calls=parallel).choices[0].message
        assert [found.function.name for found in message.tool_calls] == ["get_weather"] * n
        chunks = client.chat.completions.create(**body, parallel_tool_calls=parallel, stream=True)
        assert [found.index for chunk in chunks for found in chunk.choices[0].delta.tool_calls or []] == list(range(n))


def test_arguments_without_a_schema_are_an_object(client):
    tool = {"type": "function", "function": {"name": "anything", "parameters": {}}}
    for seed in range(6):
        choice = client.chat.completions.create(model="talker", messages=MESSAGES, tools=[tool], tool_choice="required", temperature=1, seed=seed, max_tokens=200).choices[0]
        if choice.finish_reason == "tool_calls":
            assert isinstance(json.loads(choice.message.tool_calls[0].function.arguments), dict)


CUT = {"model": "talker", "messages": MESSAGES, "tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "temperature": 0}


def test_a_call_that_a_limit_cuts_is_a_call_as_far_as_it_goes(client):
    whole = client.chat.completions.create(**CUT).choices[0].message.tool_calls[0].function.arguments
    seen = set()
    for n in range(1, 100):
        choice = client.chat.completions.create(**CUT, max_tokens=n).choices[0]
        [call] = choice.message.tool_calls
        assert call.function.name == "get_weather" and choice.message.content is None
        chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**CUT, max_tokens=n, stream=True)]
        [streamed] = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
        assert (streamed.index, streamed.function.name, streamed.function.arguments) == (0, "get_weather", call.function.arguments)
        assert "".join(chunk.delta.content or "" for chunk in chunks) == ""
        assert chunks[-1].finish_reason == choice.finish_reason
        if choice.finish_reason == "tool_calls":
            assert call.function.arguments == whole
            break
        assert choice.finish_reason == "length"
        assert whole.replace(" ", "").startswith(call.function.arguments.replace(" ", ""))
        seen.add(call.function.arguments)
    assert choice.finish_reason == "tool_calls" and "" in seen and any(0 < len(arguments) for arguments in seen)


def test_pages_of_an_allowed_origin_may_send_the_headers_of_the_openai_client():
    from running_server import RunningServer
    with RunningServer("fable", "--cors", "https://page.example") as server:
        wanted = "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-retry-count"
        answer = httpx.options(server.url + "/v1/chat/completions", headers={"origin": "https://page.example", "access-control-request-method": "POST", "access-control-request-headers": wanted})
        assert answer.status_code == 204 and answer.headers["access-control-allow-headers"] == wanted
        odd = httpx.options(server.url + "/v1/chat/completions", headers={"origin": "https://page.example", "access-control-request-headers": "x<y>"})
        assert odd.headers["access-control-allow-headers"] == "authorization, content-type"


def test_the_package_reads_a_stream_with_usage_of_several_choices(client):
    chunks = list(client.chat.completions.create(**CHAT, n=2, stream=True, stream_options={"include_usage": True}, extra_body={"store": False}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert {chunk.choices[0].index for chunk in chunks[:-1]} == {0, 1}
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]].count("length") == 2


def test_messages_as_other_clients_write_them(client):
    greedy = client.chat.completions.create(**CHAT).choices[0].message.content
    for message in ({"role": "user", "content": [{"type": "text", "text": PROMPT}], "name": None}, {"role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
                    {"role": "developer", "content": PROMPT}, {"role": "user", "content": PROMPT, "cache_control": {"type": "ephemeral"}}):
        assert client.chat.completions.create(**{**CHAT, "messages": [message]}).choices[0].message.content == greedy
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**{**CHAT, "messages": []})


def test_limits_of_new_tokens_by_every_name(client):
    assert client.completions.create(model="fable", prompt=PROMPT, temperature=0, extra_body={"ignore_eos": True}).usage.completion_tokens == 16
    for limits, n in (({"max_completion_tokens": 5}, 5), ({"max_tokens": 3}, 3)):
        assert client.chat.completions.create(model="fable", messages=MESSAGES, temperature=0, **limits).usage.completion_tokens == n


def test_options_of_other_servers_are_those_of_the_command_line(client):
    def alone(*options):
        return json.loads(succeed("run", "fable", PROMPT, "-n", 12, "--temperature", 1.2, "--seed", 4, "--json", *options))["text"]
    texts = {alone()}
    for options, fields in ((("--top-k", 3), {"top_k": 3}), (("--min-p", 0.2), {"min_p": 0.2}), (("--repetition-penalty", 1.8), {"repetition_penalty": 1.8})):
        expected = alone(*options)
        assert client.completions.create(model="fable", prompt=PROMPT, max_tokens=12, temperature=1.2, seed=4, extra_body=fields).choices[0].text == expected
        texts.add(expected)
    assert len(texts) == 4  # each of them changes the text


def test_the_end_token_can_be_ignored(client):
    def story(seed, **more):
        return client.completions.create(model="fable", prompt=PROMPT, temperature=1, seed=seed, **more)
    ended, seed = next((answer, seed) for seed in range(30) for answer in [story(seed, max_tokens=300)] if answer.choices[0].finish_reason == "stop")
    n = ended.usage.completion_tokens
    more = story(seed, max_tokens=n + 5, extra_body={"ignore_eos": True})
    assert more.choices[0].finish_reason == "length" and more.usage.completion_tokens == n + 5


def test_a_forced_call_begins_in_the_prompt(client):
    def prompt_tokens(choice):
        return client.chat.completions.create(model="talker", messages=MESSAGES, tools=[WEATHER], tool_choice=choice, max_tokens=1).usage.prompt_tokens
    prefix = json.loads(succeed("tokenize", "fable", "--json-lines", text=json.dumps({"text": "<|assistant|><tool_call>", "special": False}) + "\n"))["ids"]
    assert prompt_tokens("auto") < prompt_tokens("required") <= prompt_tokens("auto") + len(prefix)


def test_the_length_penalty_of_a_translation_is_that_of_the_command_line(http):
    text = "We went to the market and bought some apples and a loaf of bread."
    answers = {}
    for penalty in (-3, 0, 3):
        [found] = answered(http.post("/v1/translations", json={"model": "en-zh", "input": text, "beams": 4, "length_penalty": penalty}))["data"]
        assert found["text"] == succeed("translate", "en-zh", text, "--beams", 4, "--length-penalty", penalty).strip()
        answers[penalty] = found["score"]
    assert len(set(answers.values())) == 3


def test_streams_are_not_to_be_cached_or_buffered(http):
    for path, more in (("/v1/completions", {"stream": True}), ("/api/generate", {"options": {"num_predict": 2}})):
        with http.stream("POST", path, json={**TEXT, **more}) as stream:
            assert stream.headers["cache-control"] == "no-cache" and stream.headers["x-accel-buffering"] == "no"
            stream.read()


def test_offsets_of_a_text_count_characters(client):
    choice = client.completions.create(model="fable", prompt="\u65e5\u672c \u00e9t\u00e9", max_tokens=3, temperature=0, echo=True, logprobs=0).choices[0]
    tokens, offsets = choice.logprobs.tokens, choice.logprobs.text_offset
    assert any("\ufffd" in token for token in tokens)  # a part of a character
    for token, offset in zip(tokens, offsets):
        assert "\ufffd" in token or choice.text[offset:offset + len(token)] == token
    assert offsets == sorted(offsets) and offsets[-1] + len(tokens[-1]) == len(choice.text)


def test_bytes_of_tokens_are_those_of_the_text(client):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["\u65e5\u672c\u00e9\U0001f600"]}}}
    choice = client.chat.completions.create(**{**CHAT, "max_tokens": 40}, response_format=form, logprobs=True, top_logprobs=1).choices[0]
    tokens = choice.logprobs.content
    assert any("\ufffd" in token.token for token in tokens)  # a part of a character
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert all(token.top_logprobs[0].bytes is not None for token in tokens)


def test_roles_and_arguments_reach_the_template_in_one_form(http):
    def first_logprob(messages):
        """Equal for equal prompts, bit for bit."""
        body = {"model": "talker", "messages": [*messages, *MESSAGES], "max_tokens": 1, "temperature": 0, "logprobs": True}
        return answered(http.post("/v1/chat/completions", json=body))["choices"][0]["logprobs"]["content"][0]["logprob"]

    def said_by(role):
        return first_logprob([{"role": role, "content": "Be brief."}])
    assert said_by("developer") == said_by("system") != said_by("narrator")

    def called(arguments):
        return first_logprob([{"role": "assistant", "content": None, "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}])
    assert called('{"city": "Oslo", "days": 2}') == called({"city": "Oslo", "days": 2}) != called("no JSON")


def test_ollama_cuts_long_texts_unless_it_must_not(http):
    body = {"model": "embedder", "input": "one two three " * 200}
    assert len(answered(http.post("/api/embed", json=body))["embeddings"]) == 1
    refused = http.post("/api/embed", json={**body, "truncate": False})
    assert refused.status_code == 400 and "error" in refused.json()


def test_clients_that_look_for_tools_in_the_template_find_them(http):
    def template(model):
        return answered(http.post("/api/show", json={"model": model}))["template"]
    assert "tools" in template("talker") and "tools" not in template("fable")
