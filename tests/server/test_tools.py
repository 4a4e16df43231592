"""Tools, schemas, embeddings and recordings, through the client of OpenAI."""
import json

import openai
import pytest
from command_line import succeed
from server_models import WEATHER, recording

TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
MESSAGES = [{"role": "user", "content": "What is the weather?"}]


def check_weather(call):
    assert call.type == "function" and call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in ("Oslo", "Rome") and 1 <= arguments["days"] <= 9


def test_a_chosen_tool_is_called_with_arguments_of_its_schema(client):
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    for seed in range(3):
        choice = client.chat.completions.create(model="talker", messages=MESSAGES, tools=[WEATHER, TIME], tool_choice=chosen, temperature=1, seed=seed).choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        check_weather(choice.message.tool_calls[0])


def test_arguments_may_refer_to_definitions(client):
    stop = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}, "via": {"anyOf": [{"$ref": "#/$defs/city"}, {"type": "null"}]}}, "required": ["city", "via"],
            "additionalProperties": False, "$defs": {"city": {"enum": ["Oslo", "Rome"]}}}
    travel = {"type": "function", "function": {"name": "travel", "parameters": stop}}
    call = client.chat.completions.create(model="talker", messages=MESSAGES, tools=[travel, TIME], tool_choice={"type": "function", "function": {"name": "travel"}}).choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in ("Oslo", "Rome") and arguments["via"] in ("Oslo", "Rome", None)


def test_a_call_needs_few_tokens(client):
    answer = client.chat.completions.create(model="talker", messages=MESSAGES, tools=[WEATHER], tool_choice="required", max_tokens=64)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_required_call_is_streamed(client):
    chunks = list(client.chat.completions.create(model="talker", messages=MESSAGES, tools=[WEATHER], tool_choice="required", stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert len(calls) == 1 and calls[0].index == 0
    check_weather(calls[0])
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_conversation_with_calls_goes_back_through_the_template(client):
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    message = client.chat.completions.create(model="talker", messages=MESSAGES, tools=[WEATHER], tool_choice=chosen).choices[0].message
    history = [*MESSAGES, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "Rain."}]
    answer = client.chat.completions.create(model="talker", messages=history, tools=[WEATHER], tool_choice="none", max_tokens=5)
    assert answer.choices[0].message.tool_calls is None and answer.usage.completion_tokens == 5


def test_only_allowed_tools_are_called(client):
    def allowed(mode, *names):
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": name}} for name in names]}}
    def ask(choice, **more):
        return client.chat.completions.create(model="talker", messages=MESSAGES, tools=[TIME, WEATHER], tool_choice=choice, temperature=1, seed=1, **more)
    check_weather(ask(allowed("required", "get_weather")).choices[0].message.tool_calls[0])
    assert ask(allowed("auto", "get_weather"), max_tokens=2).usage.prompt_tokens < ask("auto", max_tokens=2).usage.prompt_tokens
    for choice, field in ((allowed("auto"), "tool_choice.allowed_tools.tools"), (allowed("auto", "nothing"), "tool_choice.allowed_tools.tools[0].function"),
                          (allowed("often", "get_time"), "tool_choice.allowed_tools.mode")):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(choice)
        assert refused.value.param == field


def test_parameters_are_those_of_an_object(http):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}
    answer = http.post("/v1/chat/completions", json={"model": "talker", "messages": MESSAGES, "tools": [tool]})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools[0].function.parameters.type"


def test_tools_need_a_template_that_has_them(client):
    for model, choice in (("fable", "auto"), ("talker", {"type": "function", "function": {"name": "other"}}), ("talker", 5)):
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model=model, messages=MESSAGES, tools=[WEATHER], tool_choice=choice, max_tokens=1)


def test_an_answer_matches_its_schema(client):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
              "required": ["name", "age"], "additionalProperties": False}
    for seed in range(4):
        answer = client.chat.completions.create(model="fable", messages=MESSAGES, temperature=1, seed=seed, response_format={
            "type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}})
        person = json.loads(answer.choices[0].message.content)
        assert set(person) == {"name", "age"} and 0 <= person["age"] <= 150 and len(person["name"]) <= 12
        assert answer.choices[0].finish_reason == "stop"


def test_a_schema_that_cannot_be_met_is_refused(client):
    for schema in ({"type": "nothing"}, {"type": "string", "unevaluatedItems": True, "contentSchema": 5, "enum": []}, {"description": "x" * 300_000}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="fable", messages=MESSAGES, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        assert caught.value.param == "response_format.json_schema.schema"


def test_a_json_object(client):
    answer = client.chat.completions.create(model="fable", messages=MESSAGES, max_tokens=400, temperature=0, response_format={"type": "json_object"})
    text = answer.choices[0].message.content
    assert text.lstrip().startswith("{")
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)


def test_embeddings(client, models):
    texts = ["Hello world", "one two three"]
    expected = json.loads(succeed("embed", models / "embedder", "--json", text="\n".join(texts)))["embeddings"]
    for form in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="embedder", input=texts, **form)
        assert [entry.embedding for entry in answer.data] == [pytest.approx(vector, abs=1e-6) for vector in expected]
        assert answer.usage.prompt_tokens > 0
    assert len(client.embeddings.create(model="embedder", input="Hello", dimensions=4).data[0].embedding) == 4
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="en-zh", input="Hello")


def test_transcriptions(client, models, tmp_path):
    (tmp_path / "a.wav").write_bytes(recording())
    alone = json.loads(succeed("transcribe", models / "listener", tmp_path / "a.wav", "--json"))

    def transcribe(form):
        return client.audio.transcriptions.create(model="listener", file=("a.wav", recording()), response_format=form)
    verbose = transcribe("verbose_json")
    assert [segment.tokens for segment in verbose.segments] == [window["ids"] for window in alone["windows"]]
    assert verbose.duration == alone["windows"][-1]["end_s"]
    assert transcribe("json").text == alone["text"]
    assert transcribe("text").strip() == alone["text"].strip()
    assert transcribe("srt").startswith("1\n00:00:00,000 --> ")
    assert transcribe("vtt").startswith("WEBVTT\n\n00:00:00.000 --> ")
    for file, form in (((b"nothing"), "json"), (recording(), "xml")):
        with pytest.raises(openai.BadRequestError):
            client.audio.transcriptions.create(model="listener", file=("a.wav", file), response_format=form)
    with pytest.raises(openai.BadRequestError) as bad:
        client.audio.transcriptions.create(model="listener", file=("a.wav", b"nothing"))
    assert bad.value.body["param"] == "file" and "/proc" not in bad.value.body["message"]
    with pytest.raises(openai.BadRequestError):
        client.audio.transcriptions.create(model="fable", file=("a.wav", recording()))


def test_the_times_of_a_transcription_are_those_that_the_model_says(client, models, tmp_path):
    (tmp_path / "a.wav").write_bytes(recording(2.5))
    alone = json.loads(succeed("transcribe", models / "timed", tmp_path / "a.wav", "--timestamps", "--json"))

    def transcribe(form, **more):
        return client.audio.transcriptions.create(model="timed", file=("a.wav", recording(2.5)), response_format=form, **more)
    verbose = transcribe("verbose_json", timestamp_granularities=["segment"])
    assert [(segment.start, segment.end, segment.tokens) for segment in verbose.segments] == [(text["start_s"], text["end_s"], text["ids"]) for text in alone["segments"]]
    assert [segment.end for segment in verbose.segments] != [window["end_s"] for window in alone["windows"]]
    assert verbose.duration == 2.5
    assert transcribe("srt").count(" --> ") == transcribe("vtt").count(" --> ") == len(alone["segments"])
    with pytest.raises(openai.BadRequestError) as caught:
        transcribe("verbose_json", timestamp_granularities=["word"])
    assert "timestamp_granularities" in caught.value.param
