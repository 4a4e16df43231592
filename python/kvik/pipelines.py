"""Pipelines that return what those of Hugging Face transformers return, so that a script changes one import."""
from __future__ import annotations

import os
from typing import Any, Sequence

import numpy as np

from .engine import Stream
from .errors import Error
from .hub import from_pretrained
from .ids import Path
from .model import Model


class Pipeline:
    """A model and a task; call it with one input or a list of them. Options of the call win over those of the pipeline."""

    task = ""

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self._options = options

    def __call__(self, inputs: Any, **options: Any) -> Any:
        merged = {**self._options, **options}
        merged.update(merged.pop("generate_kwargs", None) or {})
        return self._run(inputs, merged)

    def _run(self, inputs: Any, options: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"kvik.pipeline({self.task!r}, {self.model!r})"


def _is_chat(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and len(inputs) > 0 and all(isinstance(message, dict) and "role" in message for message in inputs)


class TextGeneration(Pipeline):
    """[{"generated_text": …}] for a prompt or a conversation; a list of those for a list. All of a list run together."""

    task = "text-generation"

    def _run(self, inputs: Any, options: dict[str, Any]) -> Any:
        full = options.pop("return_full_text", True)
        as_ids = options.pop("return_tensors", False)
        n = options.pop("num_return_sequences", None) or 1
        options.pop("batch_size", None)  # everything that waits runs together
        many = not isinstance(inputs, str) and not _is_chat(inputs)
        items: list[Any] = list(inputs) if many else [inputs]
        streams = [self._submit(item, {**options, **_seed(options, i)}) for item in items for i in range(n)]
        results = [self._result(item, streams[at * n + i], full, as_ids) for at, item in enumerate(items) for i in range(n)]
        grouped = [results[at * n : (at + 1) * n] for at in range(len(items))]
        return grouped if many else grouped[0]

    def _submit(self, item: Any, options: dict[str, Any]) -> Stream:
        engine = self.model._engine()
        if not _is_chat(item):
            return engine.submit(item, **options)
        return engine.submit(self.model.tokenize(self.model.apply_chat_template(item), add_special=False), **options)

    def _result(self, item: Any, stream: Stream, full: bool, as_ids: bool) -> dict[str, Any]:
        text = stream.text()
        if as_ids:
            return {"generated_token_ids": [*stream.prompt_ids.tolist(), *stream.ids.tolist()]}
        if _is_chat(item):
            return {"generated_text": [*item, {"role": "assistant", "content": text}] if full else text}
        return {"generated_text": (item if full else "") + text}


# Several results for one prompt draw different numbers.
def _seed(options: dict[str, Any], i: int) -> dict[str, Any]:
    return {"seed": options["seed"] + i} if options.get("seed") is not None else {}


class Translation(Pipeline):
    """[{"translation_text": …}] for a text, and for each of a list of texts."""

    task = "translation"

    def _run(self, inputs: Any, options: dict[str, Any]) -> Any:
        many = not isinstance(inputs, str)
        results = self.model.translate(list(inputs) if many else [inputs], **options)
        n = options.get("num_return_sequences") or 1
        grouped = [[{"translation_text": each.text} for each in (result.hypotheses[:n] or [result])] for result in results]
        if not many:
            return grouped[0]
        return [group[0] for group in grouped] if n == 1 else grouped


class SpeechRecognition(Pipeline):
    """{"text": …} for a WAVE file, samples, or {"raw": samples, "sampling_rate": n}; with return_timestamps also "chunks"."""

    task = "automatic-speech-recognition"

    def _run(self, inputs: Any, options: dict[str, Any]) -> Any:
        options.pop("chunk_length_s", None)  # windows are the model's own
        if isinstance(inputs, (list, tuple)):
            return [self._one(item, dict(options)) for item in inputs]
        return self._one(inputs, options)

    def _one(self, audio: Any, options: dict[str, Any]) -> dict[str, Any]:
        sample_rate = 16000
        if isinstance(audio, dict):
            sample_rate = int(audio["sampling_rate"])
            audio = audio["raw"] if "raw" in audio else audio["array"]
        timestamps = bool(options.pop("return_timestamps", False))
        result = self.model.transcribe(audio, sample_rate, timestamps=timestamps, **options)
        if not timestamps:
            return {"text": result.text}
        return {"text": result.text, "chunks": [{"timestamp": (part.start_s, part.end_s), "text": part.text} for part in result.timed]}


class FeatureExtraction(Pipeline):
    """Hidden states of a text as nested lists, [1][tokens][size]; a list of those for a list. With return_tensors, NumPy arrays."""

    task = "feature-extraction"

    def _run(self, inputs: Any, options: dict[str, Any]) -> Any:
        as_arrays = bool(options.pop("return_tensors", False))
        if options:
            raise TypeError(f"feature-extraction takes no option {next(iter(options))!r}")
        many = not isinstance(inputs, str)
        states = [np.expand_dims(each, 0) for each in self.model.hidden_states(list(inputs) if many else [inputs])]
        results = states if as_arrays else [each.tolist() for each in states]
        return results if many else results[0]


_TASKS: dict[str, type[Pipeline]] = {each.task: each for each in (TextGeneration, Translation, SpeechRecognition, FeatureExtraction)}


def pipeline(task: str, model: Model | Path | None = None, *, model_kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
    """A pipeline with the results of transformers' pipelines: "text-generation", "translation", "automatic-speech-recognition" or
    "feature-extraction".

    >>> generate = kvik.pipeline("text-generation", model="fable")
    >>> generate("Once upon a time", max_new_tokens=40)
    [{'generated_text': 'Once upon a time …'}]

    `model`: a Model, or what `from_pretrained` takes; `model_kwargs`: options of `Model`. Other options are those of every call.
    """
    languages = _languages(task)
    kind = _TASKS.get("translation" if languages is not None else task)
    if kind is None:
        raise Error(f"unknown task {task!r}; expected one of: {', '.join(_TASKS)}", "bad_argument")
    if model is None:
        raise Error("a pipeline needs a model: a kvik.Model, a folder or a name", "bad_argument")
    if not isinstance(model, Model):
        model = from_pretrained(os.fspath(model), **(model_kwargs or {}))
    return kind(model, **options)


def _languages(task: str) -> Sequence[str] | None:
    """translation_XX_to_YY names a pair of languages; models of one pair need no more."""
    parts = task.split("_")
    return (parts[1], parts[3]) if len(parts) == 4 and parts[0] == "translation" and parts[2] == "to" else None
