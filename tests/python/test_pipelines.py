"""Pipelines return the shapes of transformers' pipelines; tests/peers compares them with the originals."""
import json
import wave

import kvik
import numpy as np
import pytest
from kvik._pipeline_options import load_options_of

from command_line import FABLE, ROOT, TRANSLATOR

MARIAN = ROOT / "tests" / "fixtures" / "zoo" / "marian"
PROMPT = "Once upon a time"


def test_text_generation(fable):
    pipe = kvik.pipeline("text-generation", model=fable, max_new_tokens=6, do_sample=False)
    text = fable.generate(PROMPT, max_tokens=6).text()
    assert pipe(PROMPT) == [{"generated_text": PROMPT + text}]
    assert pipe(PROMPT, return_full_text=False) == [{"generated_text": text}]
    both = pipe([PROMPT, "The fox"], return_full_text=False)
    assert both == [[{"generated_text": text}], [{"generated_text": fable.generate("The fox", max_tokens=6).text()}]]
    several = pipe(PROMPT, num_return_sequences=3, do_sample=True, seed=5)
    assert len(several) == 3 and len({each["generated_text"] for each in several}) == 3
    [ids] = pipe(PROMPT, return_tensors=True)
    assert ids["generated_token_ids"][:4] == fable.tokenize(PROMPT)
    shorter = kvik.pipeline("text-generation", model=fable, do_sample=False)(PROMPT, max_length=len(fable.tokenize(PROMPT)) + 3, pad_token_id=0)
    assert shorter == [{"generated_text": PROMPT + fable.generate(PROMPT, max_tokens=3).text()}]


def test_inputs_have_the_forms_of_transformers(fable, translator):
    """A named input, a tuple, and a generator, whose results come one after another."""
    pipe = kvik.pipeline(model=fable, max_new_tokens=4, do_sample=False, num_workers=2, batch_size=2)
    prompts = [PROMPT, "The fox", "A king"]
    expected = pipe(prompts)
    assert pipe.task == "text-generation" and pipe(text_inputs=PROMPT) == expected[0] and pipe(tuple(prompts)) == expected
    taken = []
    results = pipe(prompt for prompt in prompts if not taken.append(prompt))
    assert next(results) == expected[0] and taken == prompts[:2], "a batch at a time"
    assert list(results) == expected[1:]
    translate = kvik.pipeline(model=translator, batch_size=2)
    assert list(translate(text for text in ("Hello.", "Yes."))) == [translate("Hello."), translate("Yes.")]
    for wrong in (None, 5, b"x", {"role": "user"}):
        with pytest.raises(TypeError, match="text-generation takes a str, a conversation or a list of them, not"):
            pipe(wrong)


def test_prompts_are_encoded_with_the_options_of_the_call(tmp_path):
    for file in FABLE.iterdir():
        (tmp_path / file.name).symlink_to(file)
    template = "{% if tools %}{{ tools | length }} tools\n{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    tokenizer = json.loads((FABLE / "tokenizer.json").read_text())
    begin = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": []}
    tokenizer["post_processor"] = {**begin, "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    model = kvik.Model(tmp_path, threads=1)
    pipe = kvik.pipeline("text-generation", model=model, max_new_tokens=2, do_sample=False, return_tensors=True)
    ids = model.tokenize(PROMPT, add_special=False)

    def prompt(inputs, **options):
        return pipe(inputs, **options)[0]["generated_token_ids"][:-2]

    assert prompt(PROMPT) == [0, *ids] and prompt(PROMPT, add_special_tokens=False) == ids
    assert prompt(PROMPT, truncation=True, max_length=3) == [0, *ids[:2]] == prompt(PROMPT, tokenizer_encode_kwargs={"truncation": True, "max_length": 3})
    assert prompt(PROMPT, truncation=True) == [0, *ids]
    messages = [{"role": "user", "content": "Hi"}]
    assert model.detokenize(prompt(messages, tokenizer_encode_kwargs={"tools": [{}, {}]})) == "2 tools\n<user>Hi\n"


class _Config:
    """As transformers' GenerationConfig."""

    def to_diff_dict(self):
        return {"max_new_tokens": 3, "transformers_version": "4", "_from_model_config": True}


def test_a_generation_config_gives_what_the_call_does_not(fable):
    pipe = kvik.pipeline("text-generation", model=fable)
    expected = [fable.generate(PROMPT, max_tokens=n).text() for n in (3, 5)]
    found = [pipe(PROMPT, generation_config=_Config(), return_full_text=False, **more)[0]["generated_text"] for more in ({}, {"max_new_tokens": 5})]
    assert found == expected
    assert pipe(PROMPT, generation_config={"max_new_tokens": 3}, return_full_text=False)[0]["generated_text"] == expected[0]


def test_scripts_find_a_tokenizer_in_the_pipeline(tmp_path):
    for file in FABLE.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
    model = kvik.Model(tmp_path, threads=1)
    tokenizer = kvik.pipeline("text-generation", model=model).tokenizer
    messages = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<user>Hi\n<assistant>" and tokenizer.apply_chat_template(messages, tokenize=False) == "<user>Hi\n"
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=True) == tokenizer.encode(text) == tokenizer(text)["input_ids"] == model.tokenize(text)
    assert (tokenizer.eos_token_id, tokenizer.eos_token, tokenizer.bos_token_id, tokenizer.pad_token_id) == (0, "<|endoftext|>", 0, None)
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "no such token"]) == [0, None]
    assert tokenizer.decode([*model.tokenize("Hi"), 0]) == "Hi<|endoftext|>" and tokenizer.decode([0], skip_special_tokens=True) == ""


def test_text_generation_has_the_defaults_of_transformers(fable):
    found = kvik.pipeline("text-generation", model=fable)(PROMPT, max_new_tokens=12, seed=3, return_full_text=False)
    assert found == [{"generated_text": fable.generate(PROMPT, max_tokens=12, temperature=0.7, seed=3).text()}]
    [beams] = kvik.pipeline("text-generation", model=fable)(PROMPT, max_new_tokens=6, num_beams=3, return_full_text=False)
    assert beams["generated_text"] == fable.generate(PROMPT, max_tokens=6, beams=3).text()


@pytest.mark.parametrize("options, message", [({"do_sample": False}, "without sampling"), ({"num_beams": 3}, "beam search"), ({"max_length": 2}, "max_length is 2")])
def test_results_that_there_cannot_be_are_refused(fable, options, message):
    with pytest.raises(kvik.Error, match=message):
        kvik.pipeline("text-generation", model=fable)(PROMPT, num_return_sequences=2, **options)


def test_a_conversation_that_ends_with_the_assistant_goes_on(tmp_path):
    for file in FABLE.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
    model = kvik.Model(tmp_path, threads=1)
    pipe = kvik.pipeline("text-generation", model=model, max_new_tokens=6, do_sample=False, clean_up_tokenization_spaces=False)
    user, begun = {"role": "user", "content": "Tell me of a fox."}, {"role": "assistant", "content": "There was a fox "}
    answer = model.generate("<user>Tell me of a fox.\n<assistant>", max_tokens=6).text()
    assert pipe([user]) == [{"generated_text": [user, {"role": "assistant", "content": answer}]}]
    more = model.generate("<user>Tell me of a fox.\n<assistant>There was a fox", max_tokens=6).text()
    assert pipe([[user, begun]]) == [[{"generated_text": [user, {"role": "assistant", "content": begun["content"] + more}]}]]
    again = model.generate("<user>Tell me of a fox.\n<assistant>There was a fox\n<assistant>", max_tokens=6).text()
    assert pipe([user, begun], continue_final_message=False, return_full_text=False) == [{"generated_text": again}]


def test_translation(translator):
    pipe = kvik.pipeline("translation_en_to_zh", model=translator)
    assert pipe("How are you today?") == [{"translation_text": "你今天怎么样？"}] == [{"translation_text": translator.translate("How are you today?", beams=4).text}]
    assert [set(each) for each in pipe(["Hello.", "Yes."])] == [{"translation_text"}] * 2
    assert [len(each) for each in pipe(["Hello.", "Yes."], num_return_sequences=2)] == [2, 2]
    [ids] = pipe("Hello.", return_tensors=True)
    assert ids["translation_token_ids"].tolist() == [10538, *translator.translate("Hello.", beams=4).ids]


def test_a_task_can_have_a_prefix_of_its_own(translator, tmp_path):
    for file in TRANSLATOR.iterdir():
        if file.name != "config.json":
            (tmp_path / file.name).symlink_to(file)
    config = json.loads((TRANSLATOR / "config.json").read_text())
    config["task_specific_params"] = {"translation_en_to_zh": {"prefix": "Hello. "}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = kvik.Model(tmp_path, threads=1)
    assert kvik.pipeline("translation_en_to_zh", model=model)("Yes.") == kvik.pipeline("translation", model=translator)("Hello. Yes.")
    assert kvik.pipeline("translation", model=model)("Yes.") == kvik.pipeline("translation", model=translator)("Yes.")


def test_the_languages_of_a_task_are_those_of_a_model_that_has_several(translator, tmp_path):
    """The fixture gets a tokenizer with tokens for two languages."""
    for file in MARIAN.iterdir():
        (tmp_path / file.name).symlink_to(file)
    words = {**{f"w{i}": i for i in range(1, 310)}, "</s>": 0, "en": 310, "__en__": 311, "__de__": 312, "<pad>": 319}
    special = [{"id": words[word], "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for word in ("</s>", "__en__", "__de__", "<pad>")]
    tokenizer = {"version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None}
    (tmp_path / "tokenizer.json").write_text(json.dumps({**tokenizer, "model": {"type": "WordLevel", "vocab": words, "unk_token": "w7"}}))
    model = kvik.Model(tmp_path, threads=1)
    text, options = "w12 w40 w9", {"num_beams": 1, "max_new_tokens": 6, "return_tensors": True}
    [named] = kvik.pipeline("translation_en_to_de", model=model)(text, **options)
    [given] = kvik.pipeline("translation", model=model, src_lang="en", tgt_lang="de")(text, **options)
    assert named["translation_token_ids"].tolist() == given["translation_token_ids"].tolist()
    assert named["translation_token_ids"][1] == 312, "the token of the language comes first"
    [other] = kvik.pipeline("translation_en_to_fr", model=model)(text, **options)
    assert other["translation_token_ids"][1] != 312


def test_speech_recognition(speech):
    pipe = kvik.pipeline("automatic-speech-recognition", model=speech, generate_kwargs={"max_new_tokens": 8})
    samples = np.sin(np.arange(16000) / 9).astype(np.float32)
    assert set(pipe(samples)) == {"text"}
    assert pipe({"raw": samples, "sampling_rate": 16000}) == pipe(samples) == pipe([samples, samples])[1] == pipe(np.stack([samples, samples]))
    timed = pipe(samples, return_timestamps=True)
    assert set(timed) == {"text", "chunks"} and all(set(chunk) == {"timestamp", "text"} for chunk in timed["chunks"])
    with pytest.raises(kvik.Error, match="return_timestamps is 'word'"):
        pipe(samples, return_timestamps="word")


def test_speech_has_the_forms_of_transformers(speech, tmp_path):
    pipe = kvik.pipeline(model=speech, generate_kwargs={"max_new_tokens": 8, "num_beams": 1}, chunk_length_s=30, batch_size=4)
    pipe._text = lambda found: str(found.ids)  # the fixture has no tokenizer
    samples = np.sin(np.arange(16000) / 9).astype(np.float32) * 0.5
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes((samples * 32768).astype(np.int16).tobytes())
    expected = pipe((samples * 32768).astype(np.int16))
    assert pipe.task == "automatic-speech-recognition" and len(expected["text"]) > 8
    assert pipe(str(tmp_path / "a.wav")) == pipe(tmp_path / "a.wav") == pipe((tmp_path / "a.wav").read_bytes()) == expected
    other = np.random.default_rng(1).standard_normal(16000).astype(np.float32)
    stereo = np.stack([samples + other, samples - other])
    assert pipe(stereo) == pipe(stereo.T) == pipe(samples) != pipe(stereo[0])
    assert pipe({"array": samples, "sampling_rate": 16000, "path": "a.wav", "id": 3}) == {**pipe(samples), "id": [3]}
    assert pipe({"raw": samples, "sampling_rate": 8000}) != pipe(samples)
    assert list(pipe(each for each in (samples, samples))) == [pipe(samples)] * 2
    pipe._text = lambda found: found.language
    names = {"German": "de", "de": "de", "<|de|>": "de", "english": "en"}
    assert {name: pipe(samples, generate_kwargs={"language": name, "num_beams": 1})["text"] for name in names} == names
    with pytest.raises(kvik.Error, match="the dict has 'raw'; expected 'raw' or 'array', and 'sampling_rate'"):
        pipe({"raw": samples})


def test_feature_extraction(encoder):
    states = encoder.hidden_states([[5, 6, 7]])[0]
    pipe = kvik.pipeline("feature-extraction", model=encoder)
    pipe.model = _WithTokenizer(encoder)
    found = pipe("x")
    assert np.array_equal(np.array(found, np.float32), states[None]) and isinstance(found[0][0][0], float)
    assert len(pipe(["x", "y"])) == 2 and pipe(["x"], return_tensors=True)[0].shape == (1, *states.shape)
    long = pipe("x" * 100, truncation=True, return_tensors=True)
    assert np.array_equal(long[0], encoder.hidden_states([[5] + [6] * 62 + [7]])[0])
    with pytest.raises(TypeError, match="no option 'max_tokens'"):
        pipe("x", max_tokens=3)


class _WithTokenizer:
    """The fixture has no tokenizer: a letter is one token, between two others."""

    def __init__(self, model):
        self.hidden_states, self._handle = model.hidden_states, model._handle

    def tokenize(self, text, add_special=True):
        return [5] * add_special + [6] * len(text) + [7] * add_special


@pytest.mark.parametrize("device, expected", [(-1, {"device": "cpu"}), (1, {"device": "cuda", "device_index": 1}), ("cuda:2", {"device": "cuda", "device_index": 2}), ("cuda", {"device": "cuda"}), (None, {})])
def test_devices_are_named_as_in_transformers(device, expected):
    options = {"device": device, "torch_dtype": "float16", "tokenizer": "x", "max_new_tokens": 5}
    assert load_options_of(options, {}) == expected and options == {"max_new_tokens": 5}
    kwargs = {"torch_dtype": "bfloat16", "attn_implementation": "sdpa", "weights": "q8", "device_map": "auto"}
    assert load_options_of({"device": -1}, {**kwargs, "device": 0}) == {"device": "cuda", "device_index": 0, "weights": "q8"}
    assert load_options_of({}, kwargs) == {"device": "auto", "weights": "q8"}
    with pytest.raises(kvik.Error, match="device is 'tpu'"):
        kvik.pipeline("text-generation", model=FABLE, device="tpu")


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
