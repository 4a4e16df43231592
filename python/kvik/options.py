"""Keyword options of the calls, for type checkers and documentation. None means "not set"; options that are not set are taken from the model's files."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal, Mapping, Sequence, TypedDict, Union

from . import _kvik
from ._sampling import SamplingOptions
from .ids import Path, TokenIds

if TYPE_CHECKING:
    from .model import Model
    from .text import Constraint

Weights = Literal["auto", "f32", "f16", "q8", "q4"]


class LoadOptions(TypedDict, total=False):
    backend: Literal["auto", "native", "ort", "reference"]
    device: Literal["auto", "cpu", "cuda"]  # "auto": a usable GPU if there is one, else the CPU
    device_index: int  # which GPU, if there are several
    weights: Weights  # native backend; "auto": as stored
    kv: Literal["auto", "f32", "f16", "q8"]  # storage of the KV cache
    kv_bytes: int  # memory limit of the KV cache; 0: none
    threads: int  # 0: one per core, and fewer for steps of few tokens if that is faster
    context: int  # maximum positions of a session; 0: the model's maximum
    variant: str | None  # which precision if a folder has several: "fp16", "q4", …
    isa: str  # "auto": the fastest that this CPU supports
    no_fuse: Sequence[str]
    reuse_prefixes: bool  # do not recompute a prefix that any session has computed before
    compile_cache: bool  # keep plans and packed weights for the next start, as the command line does
    ort_library: Path | None
    cuda_library: Path | None
    log: Callable[[int, str], object] | None  # level of `logging` and message; by default the logger "kvik"


class DecodingOptions(SamplingOptions, total=False):
    """Of generations, translations and transcriptions."""

    max_tokens: int | None
    max_new_tokens: int | None  # the same
    max_length: int | None  # including the prompt
    do_sample: bool | None  # False: greedy, regardless of the model's files
    beams: int | None
    num_beams: int | None  # the same
    length_penalty: float | None
    early_stopping: Union[bool, Literal["never"], None]
    stop: Union[str, Sequence[str], None]  # texts that end the answer and are not part of it
    stop_strings: Union[str, Sequence[str], None]  # the same
    stop_ids: TokenIds | None  # in addition to the model's own end tokens
    eos_token_id: TokenIds | None  # instead of the model's own end tokens
    ignore_eos: bool
    pad_token_id: int | None  # ignored, because nothing is padded


class GenerateOptions(DecodingOptions, total=False):
    logprobs: int | None  # number of most likely tokens to report per token; 0: only the chosen token
    speculate: Literal["off", "lookup"]
    draft: Model | None  # a smaller model with the same vocabulary that proposes tokens
    assistant_model: Model | None  # the same
    use_cache: bool
    constraint: Constraint | None  # what the text must match
    json_schema: Union[str, Mapping[str, Any], None]  # the same, as a JSON schema …
    regex: str | None  # … a regular expression …
    grammar: str | None  # … or a grammar in GBNF


class _SourceOptions(DecodingOptions, total=False):
    num_return_sequences: int | None
    decoder_start_token_id: int | None


class TranslateOptions(_SourceOptions, total=False):
    language: str | None  # target language, if the model has several
    tgt_lang: str | None  # the same
    source_language: str | None
    src_lang: str | None  # the same
    batch: int  # sources per run
    batch_size: int  # the same
    truncate: bool  # cut sources that exceed the model's positions
    truncation: bool  # the same
    scores: bool  # False: without beams, `score` may stay 0, which saves time
    output_scores: bool  # the same


class TranscribeOptions(_SourceOptions, total=False):
    language: str | None  # spoken language; not given: detected
    task: Literal["transcribe", "translate"] | None
    timestamps: bool
    return_timestamps: bool  # the same
    batch: int  # windows per run
    batch_size: int  # the same


class EmbedOptions(TypedDict, total=False):
    pooling: str | None
    normalize: bool | None
    prompt: str | None
    prompt_name: str | None  # the same
    dimensions: int
    truncate_dim: int  # the same
    truncate: bool
    truncation: bool  # the same


class EngineOptions(TypedDict, total=False):
    max_sequences: int  # generations, sources and windows that run together; others wait
    max_queue: int  # requests that wait
    kv_bytes: int  # replaces the model's; 0: leaves it
    max_step_ms: float


class ServeOptions(LoadOptions, total=False):
    """Of the server, and of the models that it loads."""

    host: str
    port: int  # 0: a free one
    api_key: str
    insecure: bool
    cors: str
    max_sequences: int
    queue: int
    memory_bytes: int
    idle_unload: float  # seconds; 0: never
    timeout: float
    grace: float
    max_connections: int
    max_tokens: int
    max_body_bytes: int


def describe_sampling() -> str:
    """A line per sampling option, for docstrings."""
    return "".join(f"\n  {name} ({kind}): {help or range_}" for name, kind, range_, help in _kvik.sampling_fields())
