"""Pipelines that return what those of Hugging Face transformers return, so that a script changes one import."""
from __future__ import annotations

import functools
import itertools
import os
import pathlib
import tempfile
import types
from typing import Any, Iterator

import numpy as np

from ._languages import code_of_language
from ._pipeline_options import Encoding, Options, load_options_of
from ._pipeline_tokenizer import PipelineTokenizer
from .engine import Stream
from .errors import Error
from .hub import from_pretrained
from .ids import Path
from .model import Model
from .text import Tokenizer

_GENERATOR_BATCH = 16  # inputs of a generator that run together


class Pipeline:
    """A model and a task; call it with one input, a list of them, or a generator, whose results come one after another. Options of the call
    override those of the pipeline, these the model's generation_config.json, and that the defaults of transformers' pipelines."""

    task = ""
    takes = "a str"
    defaults: dict[str, Any] = {}

    def __init__(self, model: Model, task: str = "", **options: Any) -> None:
        self.model = model
        self.task = task or self.task
        self._options = options

    def __call__(self, inputs: Any = None, **options: Any) -> Any:
        merged = {**self._options, **options}
        inputs = merged.pop("text_inputs", None) if inputs is None else inputs
        if isinstance(inputs, types.GeneratorType):
            return self._each(inputs, merged)
        if self._is_one(inputs):
            return self._run([inputs], Options(merged))[0]
        if inputs is None or isinstance(inputs, (bytes, dict, int, float)):
            raise TypeError(f"{self.task} takes {self.takes} or a list of them, not {type(inputs).__name__}")
        return self._of_list(self._run(list(inputs), Options(merged)))

    @functools.cached_property
    def tokenizer(self) -> PipelineTokenizer:
        """As in transformers, as far as scripts that call pipelines use it."""
        return PipelineTokenizer(self.model)

    def _is_one(self, inputs: Any) -> bool:
        return isinstance(inputs, str)

    # A result for each input.
    def _run(self, inputs: list[Any], options: Options) -> list[Any]:
        raise NotImplementedError

    def _of_list(self, results: list[Any]) -> list[Any]:
        return results

    # A batch at a time: a generator may yield more than fits into memory.
    def _each(self, inputs: Iterator[Any], options: dict[str, Any]) -> Iterator[Any]:
        while batch := list(itertools.islice(inputs, options.get("batch_size") or _GENERATOR_BATCH)):
            yield from self._run(batch, Options(options))

    # What generate() gets.
    def _decoding(self, options: Options) -> dict[str, Any]:
        return options.decoding(self.defaults, self.model._file_options())

    def __repr__(self) -> str:
        return f"kvik.pipeline({self.task!r}, {self.model!r})"


class TextGeneration(Pipeline):
    """[{"generated_text": …}] for a prompt or a conversation; a list of those for a list. All of a list run together."""

    task = "text-generation"
    takes = "a str, a conversation"
    defaults = {"do_sample": True, "temperature": 0.7}

    def _is_one(self, inputs: Any) -> bool:
        return isinstance(inputs, str) or _is_chat(inputs)

    def _run(self, inputs: list[Any], options: Options) -> list[Any]:
        returned = {
            "full": options.take("return_full_text", True),
            "as_ids": options.take("return_tensors") or False,
            "continues": options.take("continue_final_message"),
            "cleans": options.take("clean_up_tokenization_spaces", True),
        }
        n, encoding = options.take("num_return_sequences") or 1, Encoding(options)
        options.ignore("return_text", "batch_size", "handle_long_generation")  # everything that waits runs together
        prompts = [self._prompt(item, encoding, returned["continues"]) for item in inputs]
        streams = [[self._submit(prompt, options, i, n) for i in range(n)] for prompt in prompts]
        return [[self._result(item, stream, **returned) for stream in group] for item, group in zip(inputs, streams)]

    def _prompt(self, item: Any, encoding: Encoding, continues: bool | None) -> list[int]:
        if not _is_chat(item):
            ids = self.model.tokenize(encoding.prefix + item, add_special=encoding.add_special) or self.model.start_ids
        elif not _continues(item, continues):
            ids = self.model.tokenize(self.model.apply_chat_template(item, **encoding.variables), add_special=False)
        else:
            text = self.model.apply_chat_template(item, add_generation_prompt=False, **encoding.variables)
            ids = self.model.tokenize(_until(text, item[-1]["content"]), add_special=False)
        return ids[: encoding.max_length or self.model.max_positions or None] if encoding.truncates else ids

    def _submit(self, prompt: list[int], options: Options, i: int, n: int) -> Stream:
        decoding = self._decoding(options)
        if n > 1 and decoding.get("beams") not in (None, 1):
            raise Error(f"num_return_sequences is {n}; a beam search of a decoder has one result", "unsupported")
        if n > 1 and not decoding.get("temperature"):
            raise Error(f"num_return_sequences is {n}; without sampling there is one result: set do_sample=True", "bad_argument")
        if decoding.get("seed") is not None:
            decoding["seed"] += i  # several results for one prompt draw different numbers
        return self.model._engine().submit(prompt, **decoding)

    def _result(self, item: Any, stream: Stream, full: bool, as_ids: bool, continues: bool | None, cleans: bool) -> dict[str, Any]:
        text = stream.text()
        if as_ids:
            return {"generated_token_ids": [*stream.prompt_ids.tolist(), *stream.ids.tolist()]}
        if cleans:
            prompt = self.model.detokenize(stream.prompt_ids)
            text = _cleaned(prompt + text)[len(_cleaned(prompt)) :]
        if not full:
            return {"generated_text": text}
        if not _is_chat(item):
            return {"generated_text": item + text}
        if _continues(item, continues):
            return {"generated_text": [*item[:-1], {"role": item[-1]["role"], "content": item[-1]["content"] + text}]}
        return {"generated_text": [*item, {"role": "assistant", "content": text}]}


def _is_chat(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and len(inputs) > 0 and all(isinstance(message, dict) and "role" in message for message in inputs)


# If the last message is the assistant's, it is continued.
def _continues(messages: Any, given: bool | None) -> bool:
    return messages[-1]["role"] == "assistant" if given is None else given


# A rendered conversation up to the end of its last message, without what the template writes or trims after it.
def _until(rendered: str, message: str) -> str:
    at = rendered.rfind(message.strip())
    if at < 0:
        raise Error("the chat template changes the last message, so that it cannot be continued", "unsupported")
    kept = message.lstrip() if rendered[at:].startswith(message.lstrip()) else message.strip()
    return rendered[: at + len(kept)]


# As transformers: spaces that some tokenizers write before punctuation.
def _cleaned(text: str) -> str:
    for mark in (".", "?", "!", ","):
        text = text.replace(" " + mark, mark)
    text = text.replace(" ' ", "'")
    for ending in ("n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(" " + ending, ending)
    return text


class Translation(Pipeline):
    """[{"translation_text": …}] for a text, and for each of a list of texts."""

    task = "translation"
    defaults = {"num_beams": 4}

    def _run(self, inputs: list[Any], options: Options) -> list[Any]:
        as_ids, cleans = options.take("return_tensors") or False, options.take("clean_up_tokenization_spaces", False)
        options.ignore("return_text")
        specific = self.model._file_options("config.json").get("task_specific_params") or {}
        prefix = (specific.get(self.task) or {}).get("prefix") or ""
        decoding = {**self._languages_of_task, **self._decoding(options)}
        results = self.model.translate([prefix + text for text in inputs], **decoding)
        return [[self._result(each, as_ids, cleans) for each in (result.hypotheses or [result])] for result in results]

    def _of_list(self, results: list[Any]) -> list[Any]:
        return [group[0] for group in results] if all(len(group) == 1 for group in results) else results

    # Models of one pair of languages have no tokens for them.
    @functools.cached_property
    def _languages_of_task(self) -> dict[str, Any]:
        if not _names_languages(self.task):
            return {}
        _, source, _, target = self.task.split("_")
        return {name: language for name, language in (("src_lang", source), ("tgt_lang", target)) if self._has_language(language)}

    # A word such as "en" can be an ordinary token.
    def _has_language(self, language: str) -> bool:
        try:
            tokenizer = Tokenizer(self.model.name)
            return tokenizer.decode(tokenizer.encode("", language=language)) == ""
        except Error:
            return False

    def _result(self, found: Any, as_ids: bool, cleans: bool) -> dict[str, Any]:
        if as_ids:
            return {"translation_token_ids": np.array([*self._start(), *found.ids], np.int64)}
        return {"translation_text": _cleaned(found.text) if cleans else found.text}

    def _start(self) -> list[int]:
        found = [self.model._file_options(name).get("decoder_start_token_id") for name in ("generation_config.json", "config.json")]
        return [id for id in found if id is not None][:1]


class SpeechRecognition(Pipeline):
    """{"text": …} for a WAVE file or its bytes, samples, or {"raw": samples, "sampling_rate": n}; with return_timestamps also "chunks"."""

    task = "automatic-speech-recognition"
    takes = "a file, samples, a dict with samples"
    defaults = {"num_beams": 5}

    def _is_one(self, inputs: Any) -> bool:
        return isinstance(inputs, (str, bytes, dict, os.PathLike)) or hasattr(inputs, "ndim")

    def _run(self, inputs: list[Any], options: Options) -> list[Any]:
        timestamps = options.take("return_timestamps") or False
        if timestamps not in (True, False):
            raise Error(f"return_timestamps is {timestamps!r}; expected True or False: there are times of texts, not of words", "unsupported")
        options.ignore("chunk_length_s", "stride_length_s", "ignore_warning", "batch_size")  # windows are the model's own, and all run together
        decoding = self._decoding(options)
        if decoding.get("language") is not None:
            decoding["language"] = code_of_language(decoding["language"])
        engine = self.model._engine()
        with tempfile.TemporaryDirectory() as folder:
            sounds = [Sound(item, folder, i) for i, item in enumerate(inputs)]
            tasks = [engine.transcribe(sound.audio, sound.sample_rate, timestamps=timestamps, **decoding) for sound in sounds]
            return [{**self._result(task.result(), timestamps), **sound.more} for task, sound in zip(tasks, sounds)]

    def _result(self, found: Any, timestamps: bool) -> dict[str, Any]:
        if not timestamps:
            return {"text": self._text(found)}
        parts = [(segment.start_s, part) for segment in found.segments for part in segment.timed]
        chunks = [{"timestamp": self._times(start_s, part), "text": self._text(part)} for start_s, part in parts]
        return {"text": "".join(str(chunk["text"]) for chunk in chunks), "chunks": chunks}

    # With the space before its first word, which `Transcription.text` has not.
    def _text(self, found: Any) -> str:
        if not self.model.has_tokenizer:
            return str(found.text)
        last = self.model._file_options().get("no_timestamps_token_id")
        return self.model.detokenize([id for id in found.ids if last is None or id <= last])

    # The model's own timestamps: a text without an end timestamp has none.
    def _times(self, window_s: float, part: Any) -> tuple[float, float | None]:
        first = self.model._file_options().get("no_timestamps_token_id", -1) + 1
        length_s = self.model._file_options("preprocessor_config.json").get("chunk_length", 30)
        s_per_index = length_s / self.model._file_options("config.json").get("max_source_positions", 1500)
        begin, end = (round(window_s + (id - first) * s_per_index, 2) if id >= first else None for id in (part.ids[0], part.ids[-1]))
        return part.start_s if begin is None else begin, end if len(part.ids) > 1 else None


class Sound:
    """An input of speech recognition: a file, the bytes of one, samples, or a dict with samples. Other fields of a dict come back as lists."""

    def __init__(self, given: Any, folder: str, number: int) -> None:
        self.audio, self.sample_rate, self.more = given, 16000, {}
        if isinstance(given, dict):
            samples = given.get("raw", given.get("array"))
            if samples is None or "sampling_rate" not in given:
                raise Error(f"the dict has {', '.join(map(repr, given)) or 'no fields'}; expected 'raw' or 'array', and 'sampling_rate'", "bad_argument")
            self.audio, self.sample_rate = samples, int(given["sampling_rate"])
            self.more = {name: [value] for name, value in given.items() if name not in ("raw", "array", "sampling_rate", "path", "stride")}
        if isinstance(given, bytes):
            self.audio = os.path.join(folder, str(number))
            pathlib.Path(self.audio).write_bytes(given)
        if hasattr(self.audio, "ndim") and self.audio.ndim == 2:  # channels: the shorter axis
            samples = np.asarray(self.audio)
            self.audio = samples.mean(axis=int(samples.shape[0] > samples.shape[1]))


class FeatureExtraction(Pipeline):
    """Hidden states of a text as nested lists, [1][tokens][size]; a list of those for a list. With return_tensors, NumPy arrays."""

    task = "feature-extraction"

    def _run(self, inputs: list[Any], options: Options) -> list[Any]:
        as_arrays = bool(options.take("return_tensors"))
        truncates = bool({"truncation": options.take("truncation"), **(options.take("tokenize_kwargs") or {})}["truncation"])
        options.ignore("batch_size", "padding", "num_workers")
        options.finish(self.task)
        states = [np.expand_dims(each, 0) for each in self.model.hidden_states([self._tokens(text, truncates) for text in inputs])]
        return states if as_arrays else [each.tolist() for each in states]

    # Special tokens at both ends stay.
    def _tokens(self, text: str, truncates: bool) -> list[int]:
        ids, most = self.model.tokenize(text), self.model._handle.max_embedding_tokens()
        if not truncates or most == 0 or len(ids) <= most:
            return ids
        inner = self.model.tokenize(text, add_special=False)
        begin = next((i for i in range(len(ids) - len(inner) + 1) if ids[i : i + len(inner)] == inner), 0)
        end = begin + len(inner)
        return ids[: end - (len(ids) - most)] + ids[end:]


_TASKS: dict[str, type[Pipeline]] = {each.task: each for each in (TextGeneration, Translation, SpeechRecognition, FeatureExtraction)}


def pipeline(
    task: str | None = None, model: Model | Path | None = None, *, revision: str = "main", model_kwargs: dict[str, Any] | None = None, **options: Any
) -> Any:
    """A pipeline with the results of transformers' pipelines: "text-generation", "translation", "automatic-speech-recognition" or
    "feature-extraction"; by default, what the model can do.

    >>> generate = kvik.pipeline("text-generation", model="fable")
    >>> generate("Once upon a time", max_new_tokens=40)
    [{'generated_text': 'Once upon a time …'}]

    `model`: a Model, or what `from_pretrained` takes; `model_kwargs`: options of `Model`. `device` is as in transformers; tokenizer, dtype and other
    parts that a model's folder decides are ignored. Other options are those of every call.
    """
    kind = None if task is None else _TASKS.get("translation" if _names_languages(task) else task)
    if kind is None and task is not None:
        raise Error(f"unknown task {task!r}; expected one of: {', '.join(_TASKS)}", "bad_argument")
    if model is None:
        raise Error("a pipeline needs a model: a kvik.Model, a folder or a name", "bad_argument")
    load = load_options_of(options, model_kwargs or {})
    if not isinstance(model, Model):
        model = from_pretrained(os.fspath(model), revision=revision, **load)
    return (kind or _TASKS[_task_of(model)])(model, task or "", **options)


def _task_of(model: Model) -> str:
    if model.has_encoder:
        return "translation" if model.feature_rank == 0 else "automatic-speech-recognition"
    return "text-generation" if model.can_generate else "feature-extraction"


def _names_languages(task: str) -> bool:
    """translation_XX_to_YY"""
    parts = task.split("_")
    return len(parts) == 4 and parts[0] == "translation" and parts[2] == "to"
