"""Kvik runs generative ONNX models with a key/value cache: the file you exported, unchanged.

>>> import kvik
>>> model = kvik.Model("fable", weights="q8")
>>> for piece in model.generate("Once upon a time", max_tokens=64, temperature=0.8):
...     print(piece, end="", flush=True)

Names and defaults are those of the C++ API and of Hugging Face; options are keyword arguments.
"""
from ._kvik import (
    CacheUse,
    GeneratedToken,
    Hypothesis,
    Law,
    Metrics,
    ModelInfo,
    Score,
    Segment,
    TimedText,
    TokenLogprob,
    Transcription,
    Translation,
    Verification,
    version as __version__,
)
from .bench import Bench, bench
from .engine import Engine, Stream
from .errors import Code, Error
from .generation import Generation
from .hub import from_pretrained, pull
from .inspection import Inspection, inspect, models
from .model import Model
from .pipelines import pipeline
from .serving import Server, serve
from .session import Session, TreeLogits
from .task import Task
from .text import ChatTemplate, Constraint, Detokenizer, Tokenizer

__all__ = [
    "Bench",
    "CacheUse",
    "ChatTemplate",
    "Code",
    "Constraint",
    "Detokenizer",
    "Engine",
    "Error",
    "GeneratedToken",
    "Generation",
    "Hypothesis",
    "Inspection",
    "Law",
    "Metrics",
    "Model",
    "ModelInfo",
    "Score",
    "Segment",
    "Server",
    "Session",
    "Stream",
    "Task",
    "TimedText",
    "TokenLogprob",
    "Tokenizer",
    "Transcription",
    "Translation",
    "TreeLogits",
    "Verification",
    "__version__",
    "bench",
    "from_pretrained",
    "inspect",
    "models",
    "pipeline",
    "pull",
    "serve",
]

for _name in __all__:
    _value = globals()[_name]
    if isinstance(_value, type) and _value.__module__.startswith("kvik."):
        _value.__module__ = "kvik"
del _name, _value
