"""Pipelines return the shapes of transformers' pipelines; tests/peers compares them with the originals."""

import kvik
import numpy as np
import pytest

from command_line import FABLE

PROMPT = "Once upon a time"


def test_text_generation(fable):
    pipe = kvik.pipeline("text-generation", model=fable, max_new_tokens=6)
    text = fable.generate(PROMPT, max_tokens=6).text()
    assert pipe(PROMPT) == [{"generated_text": PROMPT + text}]
    assert pipe(PROMPT, return_full_text=False) == [{"generated_text": text}]
    both = pipe([PROMPT, "The fox"], return_full_text=False)
    assert both == [[{"generated_text": text}], [{"generated_text": fable.generate("The fox", max_tokens=6).text()}]]
    several = pipe(PROMPT, num_return_sequences=3, do_sample=True, seed=5)
    assert len(several) == 3 and len({each["generated_text"] for each in several}) == 3
    [ids] = pipe(PROMPT, return_tensors=True)
    assert ids["generated_token_ids"][:4] == fable.tokenize(PROMPT)


def test_translation(translator):
    pipe = kvik.pipeline("translation_en_to_zh", model=translator, num_beams=4)
    assert pipe("How are you today?") == [{"translation_text": "你今天怎么样？"}]
    assert [set(each) for each in pipe(["Hello.", "Yes."])] == [{"translation_text"}] * 2
    assert [len(each) for each in pipe(["Hello.", "Yes."], num_return_sequences=2)] == [2, 2]


def test_speech_recognition(speech):
    pipe = kvik.pipeline("automatic-speech-recognition", model=speech, generate_kwargs={"max_new_tokens": 8})
    samples = np.sin(np.arange(16000) / 9).astype(np.float32)
    assert set(pipe(samples)) == {"text"}
    assert pipe({"raw": samples, "sampling_rate": 16000}) == pipe(samples) == pipe([samples, samples])[1]
    timed = pipe(samples, return_timestamps=True)
    assert set(timed) == {"text", "chunks"} and all(set(chunk) == {"timestamp", "text"} for chunk in timed["chunks"])


def test_feature_extraction(tmp_path, encoder):
    states = encoder.hidden_states([[5, 6, 7]])[0]
    pipe = kvik.pipeline("feature-extraction", model=encoder)
    pipe.model = _WithTokenizer(encoder)
    found = pipe("x")
    assert np.array_equal(np.array(found, np.float32), states[None]) and isinstance(found[0][0][0], float)
    assert len(pipe(["x", "y"])) == 2 and pipe(["x"], return_tensors=True)[0].shape == (1, *states.shape)


class _WithTokenizer:
    """The fixture has no tokenizer."""

    def __init__(self, model):
        self.hidden_states = lambda texts: model.hidden_states([[5, 6, 7] for _ in texts])


def test_what_is_not_a_pipeline_is_an_error():
    with pytest.raises(kvik.Error, match="unknown task 'painting'"):
        kvik.pipeline("painting", model=FABLE)
    with pytest.raises(kvik.Error, match="needs a model"):
        kvik.pipeline("translation")


def test_from_pretrained_reads_the_hub_cache_and_stays_offline_if_asked(tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / "models--tales--fable" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for file in FABLE.iterdir():
        (snapshot / file.name).symlink_to(file)
    refs = tmp_path / "hub" / "models--tales--fable" / "refs"
    refs.mkdir()
    (refs / "main").write_text("a" * 40)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert kvik.from_pretrained("tales/fable", threads=1).generate(PROMPT, max_tokens=3).text() == " there lived a"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(kvik.Error) as error:
        kvik.from_pretrained("tales/none")
    assert error.value.code == "io"


def test_an_unmodified_openai_client_reaches_the_server_of_this_process(fable):
    """What LangChain and LlamaIndex use."""
    import openai

    with kvik.serve(FABLE, port=0, load={"threads": 1}) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
        answer = client.completions.create(model="fable", prompt=PROMPT, max_tokens=8, temperature=0)
        pieces = [part.choices[0].text for part in client.completions.create(model="fable", prompt=PROMPT, max_tokens=8, temperature=0, stream=True)]
    assert answer.choices[0].text == "".join(pieces) == fable.generate(PROMPT, max_tokens=8).text()
