"""Pipelines have the shapes and the results of transformers' pipelines."""
import pathlib
import sys
import wave

import kvik
import numpy as np
import pytest
import tokenizers
import torch
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
sys.path.insert(0, str(FIXTURES / "make"))
from exported import models  # noqa: E402

PROMPT = "Once upon a time"
CHAT = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me of a fox."}]
PREFILLED = [*CHAT, {"role": "assistant", "content": "There was a fox who "}]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def with_files(folder, source, **files):
    """A folder with the files of another and some more."""
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).symlink_to(file)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


class Peer(transformers.PreTrainedModel, transformers.GenerationMixin):
    """The ONNX model as transformers see it: logits from Kvik, everything else theirs. So the pipelines differ in nothing but their own code."""

    config_class = transformers.PretrainedConfig
    main_input_name = "input_ids"
    _is_stateful = False

    def __init__(self, model):
        config = transformers.PretrainedConfig(vocab_size=model.vocab_size, eos_token_id=model.eos_ids[0], bos_token_id=model.eos_ids[0], pad_token_id=0)
        config.is_encoder_decoder, config.use_cache = False, False
        super().__init__(config)
        self.generation_config = transformers.GenerationConfig(eos_token_id=model.eos_ids[0], pad_token_id=0, use_cache=False)
        self.parameter = torch.nn.Parameter(torch.zeros(1))
        self.kvik = model

    @property
    def device(self):
        return torch.device("cpu")

    def can_generate(self):
        return True

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, attention_mask=None, **_):
        rows = []
        for ids in input_ids:
            session = self.kvik.session()
            session.append(ids.numpy())
            rows.append(torch.from_dlpack(session.logits)[None].clone())
        return transformers.modeling_outputs.CausalLMOutput(logits=torch.stack(rows))


@pytest.fixture(scope="module")
def fable(tmp_path_factory):
    folder = pathlib.Path(kvik.inspect("fable")["folder"])
    return kvik.Model(with_files(tmp_path_factory.mktemp("models") / "fable", folder, chat_template__jinja=TEMPLATE), threads=1)


@pytest.fixture(scope="module")
def theirs(fable):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(kvik.inspect("fable")["folder"]) + "/tokenizer.json", eos_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    return transformers.pipeline("text-generation", model=Peer(fable), tokenizer=tokenizer)


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 8},
        {"max_new_tokens": 8, "return_full_text": False},
        {"max_new_tokens": 12, "repetition_penalty": 1.3},
        {"max_new_tokens": 8, "num_beams": 3},
        {"max_new_tokens": 4, "return_tensors": True},
        {"max_new_tokens": 4, "prefix": "A story. "},
        {"max_new_tokens": 12, "clean_up_tokenization_spaces": False, "pad_token_id": 0},
    ],
)
@pytest.mark.parametrize("inputs", [PROMPT, [PROMPT, "The fox , he said , was"], [CHAT, CHAT[1:]], PREFILLED])
def test_text_generation_is_the_same(fable, theirs, inputs, options):
    if "prefix" in options and not isinstance(inputs[0], str):
        pytest.skip("conversations have no prefix")
    found = kvik.pipeline("text-generation", model=fable)(inputs, do_sample=False, **options)
    assert found == theirs(inputs, do_sample=False, **options)


def test_inputs_and_options_may_have_every_form(fable, theirs):
    ours = kvik.pipeline("text-generation", model=fable)
    long = "Once upon a time there was a king who had a daughter"
    for call in (
        lambda pipe: pipe(text_inputs=PROMPT, max_new_tokens=4, do_sample=False),
        lambda pipe: list(pipe((prompt for prompt in (PROMPT, "The fox")), max_new_tokens=4, do_sample=False, batch_size=1)),
        lambda pipe: pipe(PROMPT, generation_config=transformers.GenerationConfig(max_new_tokens=4, do_sample=False, pad_token_id=0)),
        lambda pipe: pipe(long, max_new_tokens=4, do_sample=False, return_tensors=True, tokenizer_encode_kwargs={"truncation": True, "max_length": 5}),
        lambda pipe: pipe(PROMPT, max_new_tokens=4, do_sample=False, add_special_tokens=False, return_tensors=True),
        lambda pipe: pipe([CHAT], max_new_tokens=4, do_sample=False, repetition_penalty=1.5),
        lambda pipe: pipe(PROMPT, max_new_tokens=20, do_sample=False, eos_token_id=[fable.tokenize(" king")[0], 0], return_tensors=True),
        lambda pipe: pipe.tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True),
        lambda pipe: pipe.tokenizer.apply_chat_template(CHAT),
        lambda pipe: (pipe.tokenizer.eos_token_id, pipe.tokenizer.convert_tokens_to_ids("<|endoftext|>"), pipe.tokenizer.decode([0]), pipe.task),
    ):
        assert call(ours) == call(theirs)


def test_text_generation_samples_unless_told_otherwise_and_gives_several_results(fable, theirs):
    options = {"max_new_tokens": 6, "num_return_sequences": 3}
    ours = kvik.pipeline("text-generation", model=fable)([PROMPT, "The fox"], **options)
    shape = [[sorted(each) for each in group] for group in ours]
    assert shape == [[sorted(each) for each in group] for group in theirs([PROMPT, "The fox"], **options)] == [[["generated_text"]] * 3] * 2
    for pipe in (theirs, kvik.pipeline("text-generation", model=fable)):
        with pytest.raises((ValueError, kvik.Error), match="num_return_sequences"):
            pipe(PROMPT, do_sample=False, **options)


def words(n, specials):
    """A tokenizer of n words, with the special tokens at their places."""
    vocabulary = {f"w{i}": i for i in range(n) if i not in specials.values()} | specials
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w7"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    specials = {"</s>": 0, "<pad>": 319}
    tokenizer = words(320, specials)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    folder = with_files(tmp_path_factory.mktemp("models") / "marian", FIXTURES / "zoo" / "marian", tokenizer__json=tokenizer.to_str())
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>")
    return kvik.Model(folder, threads=1), transformers.pipeline("translation_en_to_de", model=models.translation(1), tokenizer=fast)


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2}, {"return_tensors": True}])
@pytest.mark.parametrize("inputs", ["w12 w40 w9", ["w12 w40 w9"], ["w100 w7 w33 w150", "w11 w300"]])
def test_translation_is_the_same(translators, inputs, options):
    ours, theirs = translators
    found = kvik.pipeline("translation_en_to_de", model=ours)(inputs, max_new_tokens=24, **options)
    assert plain(found) == plain(theirs(inputs, max_new_tokens=24, **options))


def test_translations_of_a_generator_come_one_after_another(translators):
    ours, theirs = translators
    pipes = kvik.pipeline("translation_en_to_de", model=ours), theirs
    found = [list(pipe((text for text in ("w12 w40", "w9 w11 w40")), max_new_tokens=8, batch_size=2)) for pipe in pipes]
    assert found[0] == found[1]


def plain(results):
    """Tensors and arrays as lists."""
    if isinstance(results, list):
        return [plain(each) for each in results]
    return {name: value if isinstance(value, str) else [int(id) for id in value] for name, value in results.items()}


@pytest.fixture(scope="module")
def listeners(tmp_path_factory):
    """The speech fixture with a tokenizer of its own: letters, then the tokens of languages, tasks and times."""
    letters = [f"{'Ġ' if i % 3 == 0 else ''}{chr(97 + i % 26)}{i}" for i in range(100)]
    letters[models.PAD], letters[models.EOS] = "<|pad|>", "<|endoftext|>"
    marks = ["<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>"]
    marks += [f"<|{i * 0.02:.2f}|>" for i in range(120 - 100 - len(marks))]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(letters)}, []))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(marks[:6])
    tokenizer.add_tokens([tokenizers.AddedToken(mark, normalized=False) for mark in marks[6:]])
    tokenizer.add_special_tokens(["<|endoftext|>", "<|pad|>"])
    folder = with_files(tmp_path_factory.mktemp("models") / "speech", FIXTURES / "zoo" / "small-speech", tokenizer__json=tokenizer.to_str())
    fast = transformers.WhisperTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<|endoftext|>", pad_token="<|pad|>", unk_token=None, additional_special_tokens=marks[:6])
    theirs = transformers.pipeline("automatic-speech-recognition", model=models.speech(4), tokenizer=fast, feature_extractor=models.feature_extractor())
    return kvik.Model(folder, threads=1), theirs


def sound(seed, seconds):
    return (np.random.default_rng(seed).standard_normal(int(16000 * seconds)) * 0.2).astype(np.float32)


@pytest.mark.parametrize("options", [{"num_beams": 1}, {}, {"num_beams": 1, "language": "german", "task": "translate"}, {"num_beams": 1, "return_timestamps": True}])
@pytest.mark.parametrize(
    "inputs",
    [
        sound(1, 1),
        [sound(2, 1), sound(3, 0.7)],
        {"raw": sound(4, 0.5), "sampling_rate": 16000},
        {"array": sound(4, 0.5), "sampling_rate": 16000, "path": "a.wav", "id": 7},
        np.stack([sound(5, 1), sound(6, 1)]),
        torch.from_numpy(sound(7, 1)),
    ],
)
def test_speech_recognition_is_the_same(listeners, inputs, options):
    ours, theirs = listeners
    timestamps = {"return_timestamps": True} if options.get("return_timestamps") else {}
    generate = {name: value for name, value in options.items() if name != "return_timestamps"}
    expected = theirs(inputs if not isinstance(inputs, dict) else dict(inputs), generate_kwargs=dict(generate), **timestamps)
    assert kvik.pipeline("automatic-speech-recognition", model=ours)(inputs, generate_kwargs=generate, **timestamps) == expected


def test_a_file_of_speech_is_its_samples(listeners, tmp_path):
    samples = (sound(5, 1) * 32767).astype(np.int16)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes(samples.tobytes())
    ours, theirs = listeners
    options = {"generate_kwargs": {"num_beams": 1}}
    assert kvik.pipeline("automatic-speech-recognition", model=ours)(str(tmp_path / "a.wav"), **options) == theirs(samples / 32768.0, **options)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    specials = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2}
    tokenizer = words(320, specials)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    folder = with_files(tmp_path_factory.mktemp("models") / "bert", FIXTURES / "zoo" / "bert", tokenizer__json=tokenizer.to_str())
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", model_max_length=64)
    return kvik.Model(folder, threads=1), transformers.pipeline("feature-extraction", model=models.text_encoder(1), tokenizer=fast)


@pytest.mark.parametrize("options", [{}, {"return_tensors": True}, {"truncation": True}, {"tokenize_kwargs": {"truncation": True}}])
@pytest.mark.parametrize("inputs", ["w12 w40 w9", ["w12 w40 w9"], ["w100 w7 w33 w150", "w11"]])
def test_feature_extraction_is_the_same(encoders, inputs, options):
    ours, theirs = encoders
    found, expected = kvik.pipeline("feature-extraction", model=ours)(inputs, **options), theirs(inputs, **options)
    assert type(found) is type(expected) or options.get("return_tensors")
    assert same_numbers(found, expected)
    if options.get("truncation"):
        long = " ".join(f"w{i + 10}" for i in range(100))
        assert same_numbers(kvik.pipeline("feature-extraction", model=ours)(long, **options), theirs(long, **options))


def same_numbers(found, expected):
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same_numbers, found, expected))
    return np.shape(found) == np.shape(expected) and np.allclose(found, expected, atol=1e-4)


def test_logits_cross_to_torch_without_a_copy(fable):
    session = fable.session()
    session.append([5, 6])
    logits = session.logits
    assert torch.from_dlpack(logits).data_ptr() == logits.ctypes.data
    assert np.array_equal(torch.from_dlpack(logits).numpy(), logits)
