"""Everything that is not generation: translation, speech, vectors, scores, inspection, text, the server."""
import json
import urllib.request
import wave

import kvik
import numpy as np
import pytest

from command_line import FABLE, ROOT, TRANSLATOR, kvik as run_kvik, succeed

TEXTS = ["How are you today?", "Hello.", "Good night."]
SPEECH = ["--max-tokens", "8"]


def test_translations_are_those_of_the_command_line(translator):
    expected = json.loads(succeed("translate", TRANSLATOR, "--beams", "4", "--json", text="\n".join(TEXTS) + "\n"))["results"]
    found = translator.translate(TEXTS, beams=4)
    assert [each.text for each in found] == [each["text"] for each in expected]
    assert [each.ids for each in found] == [each["ids"] for each in expected]
    assert [round(each.score, 4) for each in found] == [round(each["score"], 4) for each in expected]
    assert translator.translate(TEXTS[0], num_beams=4).text == expected[0]["text"]
    by_ids = translator.translate([found[0].source_ids, np.array(found[1].source_ids)], beams=4)
    assert [each.text for each in by_ids] == [each["text"] for each in expected[:2]]
    several = translator.translate([TEXTS[0]], beams=4, num_return_sequences=3)
    assert len(several[0].hypotheses) == 3 and several[0].hypotheses[0].text == several[0].text
    assert translator.translate([]) == []


def test_speech_from_samples_from_a_file_and_from_features_is_one(speech, tmp_path):
    rng = np.random.default_rng(3)
    samples = (rng.standard_normal(16000) * 8000).astype(np.int16)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes(samples.tobytes())
    from_file = speech.transcribe(tmp_path / "a.wav", max_tokens=8)
    from_samples = speech.transcribe(samples / 32768.0, 16000, max_tokens=8)
    expected = json.loads(succeed("transcribe", ROOT / "tests/fixtures/zoo/small-speech", tmp_path / "a.wav", *SPEECH, "--json"))
    assert from_file.ids == from_samples.ids == expected["ids"] and from_file.text == expected["text"]
    assert from_file.segments[0].finish in ("stop", "length")
    with pytest.raises(kvik.Error, match="one channel"):
        speech.transcribe(np.zeros((2, 100), np.float32))


def test_vectors_and_hidden_states(encoder):
    ids = [[5, 6, 7, 8], [9, 10]]
    vectors = encoder.embed(ids, pooling="cls", normalize=False)
    assert vectors.shape == (2, encoder.embedding_size(pooling="cls")) and vectors.dtype == np.float32
    states = encoder.hidden_states(ids)
    assert [each.shape for each in states] == [(4, vectors.shape[1]), (2, vectors.shape[1])]
    assert all(np.array_equal(state[0], vector) for state, vector in zip(states, vectors))
    assert not states[0].flags.owndata and not states[0].flags.writeable
    assert not encoder.can_generate and encoder.can_embed
    with pytest.raises(kvik.Error) as error:
        encoder.generate([1, 2]).text()
    assert error.value.code == "unsupported"


def test_scores_are_those_of_the_command_line(fable, tmp_path):
    text = "Once upon a time there was a king who had a daughter."
    (tmp_path / "text").write_text(text)
    expected = json.loads(succeed("score", FABLE, tmp_path / "text", "--json"))
    found = fable.score(text)
    assert np.allclose(found.logprobs, expected["logprobs"]) and found.perplexity == pytest.approx(expected["perplexity"])
    assert found.logprobs.dtype == np.float64


def test_inspection_is_that_of_the_command_line_and_has_tables():
    found = kvik.inspect(FABLE)
    assert dict(found) == json.loads(succeed("inspect", FABLE, "--json"))
    assert (found.kind, found.backend, found.problems) == ("decoder", "native", [])
    html = found._repr_html_()
    assert "past_key_values.0.key" in html and html.count("<table>") == html.count("</table>") == 3
    assert "fable" in {each.name for each in kvik.models()}


def test_laws_hold_and_are_reported_as_they_are_found(fable):
    seen = []
    found = fable.verify(compare=False, progress=lambda done, total: seen.append(done))
    assert found.holds and seen == list(range(1, len(found.laws) + 1))
    assert {law.name for law in found.laws} >= {"cached = uncached", "batch = alone"}


def test_text_is_that_of_the_tokenizer_alone(fable):
    tokenizer = kvik.Tokenizer(FABLE)
    ids = tokenizer.encode("Once upon a time, ein König 🦊")
    assert ids == fable.tokenize("Once upon a time, ein König 🦊")
    assert tokenizer.decode(ids) == fable.detokenize(ids)
    stream = tokenizer.stream()
    assert "".join([stream.push(id) for id in ids] + [stream.flush()]) == tokenizer.decode(ids)
    assert not kvik.ChatTemplate(FABLE) and not fable.has_chat_template


def test_chat_uses_the_template_of_the_model_and_continues_a_session(tmp_path):
    for file in FABLE.iterdir():
        (tmp_path / file.name).symlink_to(file)
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if tools %}{{ tools | length }} tools\n{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    model = kvik.Model(tmp_path, threads=1)
    messages = [{"role": "user", "content": "Tell me of a fox."}]
    prompt = "<user>Tell me of a fox.\n<assistant>"
    assert model.apply_chat_template(messages) == prompt
    assert model.apply_chat_template(messages, tools=[{}]) == "<user>Tell me of a fox.\n1 tools\n<assistant>"
    session = model.session()
    first = model.chat(messages, session=session, max_tokens=10)
    text = first.text()
    assert first.prompt_ids.tolist() == model.tokenize(prompt, add_special=False)
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    second = model.chat(messages, session=session, max_tokens=5)
    assert second.text() == model.chat(messages, max_tokens=5).text()
    assert second.metrics.reused_tokens > len(first.prompt_ids) - 3


def test_a_server_in_this_process_answers(fable):
    with kvik.serve(FABLE, port=0, max_sequences=4, load={"threads": 1}) as server:
        body = json.dumps({"model": "fable", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(server.url + "/v1/completions", body, {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=60))
    assert answer["choices"][0]["text"] == fable.generate("Once upon a time", max_tokens=8).text()
    with pytest.raises(kvik.Error, match="port"):
        kvik.serve(FABLE, port=70000)


def test_errors_have_codes_and_survive_pickling():
    import pickle

    with pytest.raises(kvik.Error) as error:
        kvik.Model("no-such-model")
    assert error.value.code is kvik.Code.IO and "no-such-model" in str(error.value)
    copy = pickle.loads(pickle.dumps(error.value))
    assert (str(copy), copy.code) == (str(error.value), error.value.code)
    with pytest.raises(kvik.Error, match="weights is 'q5'; expected one of: auto, f32, f16, q8, q4"):
        kvik.Model(FABLE, weights="q5")
    with pytest.raises(TypeError, match="unexpected keyword argument 'wights'"):
        kvik.Model(FABLE, wights="q8")
    with pytest.raises(TypeError, match="both 'max_tokens' and 'max_new_tokens'"):
        kvik.Model(FABLE, threads=1).generate("x", max_tokens=1, max_new_tokens=1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"stop": 5}, "stop is 5; expected a str or a list of them"),
        ({"max_tokens": 2.5}, "max_tokens is 2.5; expected an int from"),
        ({"max_tokens": 2**40}, "max_tokens is 1099511627776; expected an int from -2147483648 to 2147483647"),
        ({"ignore_eos": 1}, "ignore_eos is 1; expected True or False"),
        ({"sequence_bias": {(1, 2): "x"}}, r"sequence_bias is \{\(1, 2\): 'x'\}; expected"),
        ({"constraint": "x"}, "constraint is 'x'; expected a kvik.Constraint"),
        ({"draft": 3}, "draft is 3; expected a kvik.Model"),
        ({"early_stopping": "maybe"}, "early_stopping must be True, False or 'never'"),
        ({"temprature": 1}, "unexpected keyword argument 'temprature'"),
    ],
)
def test_options_of_another_type_are_type_errors_before_anything_runs(fable, options, message):
    with pytest.raises(TypeError, match=message):
        fable.generate("x", **options)


def test_messages_of_the_library_go_to_pythons_log(caplog):
    with caplog.at_level("INFO", logger="kvik"):
        kvik.Model(FABLE, threads=1)
    assert any("native" in record.message for record in caplog.records)
    seen = []
    kvik.Model(FABLE, threads=1, log=lambda level, message: seen.append((level, message)))
    assert seen and all(level in (10, 20, 30, 40) for level, _ in seen)


def test_the_command_of_the_package_is_the_program():
    assert kvik.command.run_json("run", str(FABLE), "Once upon a time", "-n", "3")["text"] == " there lived a"
    with pytest.raises(kvik.Error, match="no-such-model"):
        kvik.command.run_json("run", "no-such-model", "x")
    assert kvik.__version__ == run_kvik("--version").stdout.strip()
