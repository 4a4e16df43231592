"""Keyword options have the names of Hugging Face; unknown names are errors that say what was probably meant."""
import kvik
import numpy as np
import pytest

from command_line import FABLE, TRANSLATOR

PROMPT = "Once upon a time"


def test_max_length_counts_the_prompt_and_max_new_tokens_decides_over_it(fable):
    n_prompt = len(fable.tokenize(PROMPT))
    expected = fable.generate(PROMPT, max_tokens=5).text()
    session = fable.session()
    session.append(fable.tokenize(PROMPT))
    assert fable.generate(PROMPT, max_length=n_prompt + 5).text() == expected
    assert session.generate(max_length=n_prompt + 5).text() == expected
    assert kvik.Engine(fable).submit(PROMPT, max_length=n_prompt + 5).text() == expected
    assert fable.generate(PROMPT, max_length=2, max_new_tokens=5).text() == expected
    with pytest.raises(kvik.Error, match=f"max_length is {n_prompt}, and {n_prompt} tokens come before"):
        fable.generate(PROMPT, max_length=n_prompt)
    with pytest.raises(TypeError, match="max_length is 'x'"):
        fable.generate(PROMPT, max_length="x")


@pytest.mark.parametrize("make", [lambda id: id, lambda id: [id], lambda id: np.array([id])])
def test_eos_token_id_replaces_the_end_tokens_of_the_model(fable, make):
    [end] = fable.eos_ids
    ids = fable.tokenize(PROMPT)
    plain = fable.generate(ids, max_tokens=6)
    plain.text()
    stopped = fable.generate(ids, max_tokens=6, eos_token_id=make(int(plain.ids[3])))
    stopped.text()
    assert (stopped.finish, stopped.ids.tolist()) == ("stop", plain.ids[:4].tolist())
    forced = {"logit_bias": {end: 100.0}, "max_tokens": 3}
    for options, finish in (({}, "stop"), ({"eos_token_id": make(5)}, "length"), ({"eos_token_id": make(5), "stop_ids": [end]}, "stop")):
        generation = fable.generate(ids, **forced, **options)
        generation.text()
        assert generation.finish == finish, options


def test_an_assistant_model_is_a_draft(fable):
    draft = kvik.Model(FABLE, threads=1, weights="q4")
    generation = fable.generate(PROMPT, max_tokens=20, assistant_model=draft, pad_token_id=0)
    assert generation.text() == fable.generate(PROMPT, max_tokens=20).text()
    assert generation.metrics.proposed_tokens > 0
    with pytest.raises(TypeError, match="both 'draft' and 'assistant_model'"):
        fable.generate(PROMPT, draft=draft, assistant_model=draft)


@pytest.mark.parametrize(
    "name, suggestion",
    [
        ("max_token", "did you mean 'max_tokens'"),
        ("temprature", "did you mean 'temperature'"),
        ("repitition_penalty", "did you mean 'repetition_penalty'"),
        ("jsonschema", "did you mean 'json_schema'"),
        ("streamer", "iterate over the result"),
        ("logits_processor", "use a Session and its logits"),
    ],
)
def test_an_unknown_option_is_an_error_with_what_to_use(fable, name, suggestion):
    with pytest.raises(TypeError, match=f"generate\\(\\) got an unexpected keyword argument '{name}'; {suggestion}"):
        fable.generate(PROMPT, **{name: 1})


def test_an_option_like_no_other_has_no_suggestion(fable):
    with pytest.raises(TypeError, match="unexpected keyword argument 'qqq'$"):
        fable.generate(PROMPT, qqq=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'; did you mean 'weights'"):
        kvik.Model(FABLE, weight="q8")


def test_the_options_of_a_server_are_those_of_the_command(fable):
    """Those of its models too, as flags or as a dict."""
    with kvik.serve(FABLE, port=0, threads=1, context=64) as server, kvik.serve(FABLE, port=0, load={"threads": 1}) as other:
        assert server.port != other.port
    with pytest.raises(kvik.Error, match="weights is 'q5'"):
        kvik.serve(FABLE, port=0, weights="q5")
    with pytest.raises(TypeError, match="serve\\(\\) got an unexpected keyword argument 'prot'; did you mean 'port'"):
        kvik.serve(FABLE, prot=0)


def test_texts_are_strings_of_characters(fable, translator):
    for call in (fable.tokenize, fable.generate, kvik.Tokenizer(FABLE).encode, kvik.Constraint.regex, translator.translate):
        with pytest.raises(UnicodeEncodeError, match="surrogates"):
            call("a\ud800")
    for call in (fable.tokenize, kvik.Tokenizer(FABLE).encode, kvik.Constraint.regex):
        with pytest.raises(TypeError, match="a text must be a str, not bytes"):
            call(b"a")
    with pytest.raises(TypeError, match="expected a text, or a list of texts, .* found int"):
        translator.translate(5)


def test_samples_are_floats_or_integers_of_full_scale(speech):
    wave = (np.sin(np.arange(16000) / 9) * 30000).astype(np.int16)
    assert speech.transcribe(wave, max_tokens=8).ids == speech.transcribe(wave / 32768, max_tokens=8).ids != speech.transcribe(wave * 1.0, max_tokens=8).ids
    for wrong in (None, 0.5, ["a"], {"raw": 1}):
        with pytest.raises(TypeError, match="audio must be a file or an array of samples"):
            speech.transcribe(wrong)
