"""The public C++ API of Kvik. Use the package kvik, which documents it."""

from collections.abc import Sequence
import os
import pathlib

import numpy
from numpy.typing import NDArray


def shut_down() -> None:
    """
    Before Python ends: threads of the library that run no longer ask for the GIL.
    """

version: str = '0.1.0'

def check_generate_options(**options: object) -> None:
    """
    Raises TypeError for unknown names and for values of another type; ranges are checked when a generation begins.
    """

def sampling_fields() -> list[tuple[str, str, str, str]]:
    """Name, type, range and help of every sampling option."""

class Session:
    def append(self, ids: object, progress: object | None = None) -> None: ...

    def append_tree(self, tokens: object, parents: object) -> None: ...

    def tree_logits(self, node: int) -> NDArray[numpy.float32]: ...

    def keep(self, node: int) -> None: ...

    def logits(self) -> NDArray[numpy.float32]: ...

    def sample(self, **options: object) -> int: ...

    def fork(self) -> Session: ...

    def rewind(self, length: int) -> None: ...

    def save(self, file: str | os.PathLike[str]) -> None: ...

    def length(self) -> int: ...

    def capacity(self) -> int: ...

    def tokens(self) -> NDArray[numpy.int32]: ...

    def metrics(self) -> Metrics: ...

class Generation:
    def __iter__(self) -> Generation: ...

    def __next__(self) -> str: ...

    def prompt_ids(self) -> NDArray[numpy.int32]: ...

    def ids(self) -> NDArray[numpy.int32]: ...

    def finish(self) -> str: ...

    def metrics(self) -> Metrics: ...

class Mailbox:
    def __init__(self) -> None: ...

    def descriptor(self) -> int: ...

    def take(self) -> list[int]:
        """The indices of requests with new data."""

class Stream:
    def poll(self) -> tuple[str, list[GeneratedToken], str | None, bool]: ...

    def prompt_ids(self) -> NDArray[numpy.int32]: ...

    def ids(self) -> NDArray[numpy.int32]: ...

    def metrics(self) -> Metrics: ...

    def wait(self, ms: int) -> bool:
        """
        Waits for new data for at most this many milliseconds; returns whether there is any.
        """

    def signal_to(self, mailbox: Mailbox | None, number: int) -> None: ...

    def cancel(self) -> None: ...

class Engine:
    def __init__(self, model: Model, **options: object) -> None: ...

    def submit(self, ids: object, user: str, timeout: float, **options: object) -> Stream | None: ...

    def is_full(self) -> bool: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...

    def load(self) -> tuple[int, int, int]: ...

    def translate(self, sources: object, user: str, timeout: float, **options: object) -> TranslationTask | None: ...

    def transcribe(self, audio: object, sample_rate: int, user: str, timeout: float, **options: object) -> TranscriptionTask | None: ...

    def embed(self, texts: object, user: str, timeout: float, **options: object) -> EmbeddingTask | None: ...

    def score(self, ids: object, user: str, timeout: float, **options: object) -> ScoreTask | None: ...

class TranslationTask:
    def is_done(self) -> bool: ...

    def result(self) -> list[Translation] | None:
        """May be called once. None: cancelled or timed out."""

    def timed_out(self) -> bool: ...

    def wait(self, ms: int) -> bool:
        """
        Waits for new data for at most this many milliseconds; returns whether there is any.
        """

    def signal_to(self, mailbox: Mailbox | None, number: int) -> None: ...

    def cancel(self) -> None: ...

class TranscriptionTask:
    def is_done(self) -> bool: ...

    def result(self) -> Transcription | None:
        """May be called once. None: cancelled or timed out."""

    def timed_out(self) -> bool: ...

    def wait(self, ms: int) -> bool:
        """
        Waits for new data for at most this many milliseconds; returns whether there is any.
        """

    def signal_to(self, mailbox: Mailbox | None, number: int) -> None: ...

    def cancel(self) -> None: ...

class EmbeddingTask:
    def is_done(self) -> bool: ...

    def result(self) -> NDArray[numpy.float32] | None:
        """May be called once. None: cancelled or timed out."""

    def timed_out(self) -> bool: ...

    def wait(self, ms: int) -> bool:
        """
        Waits for new data for at most this many milliseconds; returns whether there is any.
        """

    def signal_to(self, mailbox: Mailbox | None, number: int) -> None: ...

    def cancel(self) -> None: ...

class ScoreTask:
    def is_done(self) -> bool: ...

    def result(self) -> Score | None:
        """May be called once. None: cancelled or timed out."""

    def timed_out(self) -> bool: ...

    def wait(self, ms: int) -> bool:
        """
        Waits for new data for at most this many milliseconds; returns whether there is any.
        """

    def signal_to(self, mailbox: Mailbox | None, number: int) -> None: ...

    def cancel(self) -> None: ...

class Hypothesis:
    """One result of a decoder for a source."""

    @property
    def ids(self) -> list[int]:
        """Without the start token, including the end token that stopped it."""

    @property
    def text(self) -> str:
        """Empty if the model has no tokenizer."""

    @property
    def score(self) -> float:
        """Sum of log-probabilities / length ** length_penalty."""

    @property
    def finish(self) -> str:
        """'stop', 'length' or 'cancelled'."""

    def __repr__(self) -> str: ...

class Translation(Hypothesis):
    """The best hypothesis for one source."""

    @property
    def source_ids(self) -> list[int]: ...

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """num_return_sequences of them, best first."""

    def __repr__(self) -> str: ...

class TimedText:
    """The text between two timestamps of a recording."""

    @property
    def start_s(self) -> float: ...

    @property
    def end_s(self) -> float: ...

    @property
    def text(self) -> str: ...

    @property
    def ids(self) -> list[int]: ...

    def __repr__(self) -> str: ...

class Segment(Hypothesis):
    """One window of a recording."""

    @property
    def start_s(self) -> float: ...

    @property
    def end_s(self) -> float: ...

    @property
    def timed(self) -> list[TimedText]: ...

    @property
    def hypotheses(self) -> list[Hypothesis]: ...

    def __repr__(self) -> str: ...

class Transcription:
    """The text of a recording."""

    @property
    def text(self) -> str: ...

    @property
    def ids(self) -> list[int]: ...

    @property
    def start_ids(self) -> list[int]:
        """The decoder's start tokens: start, language, task."""

    @property
    def language(self) -> str:
        """Empty if the model has no languages."""

    @property
    def finish(self) -> str: ...

    @property
    def segments(self) -> list[Segment]: ...

    @property
    def timed(self) -> list[TimedText]:
        """With timestamps: the text segments with their times."""

    def __repr__(self) -> str: ...

class Score:
    """Log-probability of every token given those before it."""

    @property
    def logprobs(self) -> NDArray[numpy.float64]:
        """Natural logarithms, of every token but the first of each window."""

    @property
    def sum_logprob(self) -> float: ...

    @property
    def window(self) -> int: ...

    @property
    def perplexity(self) -> float: ...

    @property
    def finish(self) -> str: ...

    def __repr__(self) -> str: ...

class TokenLogprob:
    """A token and its log-probability."""

    @property
    def id(self) -> int: ...

    @property
    def logprob(self) -> float: ...

    def __repr__(self) -> str: ...

class GeneratedToken(TokenLogprob):
    """A generated token, and the most likely alternatives."""

    @property
    def top(self) -> list[TokenLogprob]: ...

class Metrics:
    """Times and counts of a generation or a session."""

    @property
    def prefill_ms(self) -> float: ...

    @property
    def first_token_ms(self) -> float: ...

    @property
    def decode_ms(self) -> float: ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def reused_tokens(self) -> int: ...

    @property
    def decode_tokens(self) -> int: ...

    @property
    def generated_tokens(self) -> int: ...

    @property
    def decode_runs(self) -> int: ...

    @property
    def proposed_tokens(self) -> int: ...

    @property
    def accepted_tokens(self) -> int: ...

    @property
    def cache_bytes(self) -> int: ...

    @property
    def mask_ms(self) -> float: ...

    @property
    def prefill_tokens_per_s(self) -> float: ...

    @property
    def decode_tokens_per_s(self) -> float: ...

    def __repr__(self) -> str: ...

class CacheUse:
    """Memory use of a model's KV cache, and how much computation it saved."""

    @property
    def used_bytes(self) -> int: ...

    @property
    def prefix_bytes(self) -> int: ...

    @property
    def allocated_bytes(self) -> int: ...

    @property
    def limit_bytes(self) -> int: ...

    @property
    def reused_positions(self) -> int: ...

    @property
    def evicted_positions(self) -> int: ...

    def __repr__(self) -> str: ...

class Law:
    """
    An equality between two ways of computing the same logits or ids; both ways were run.
    """

    @property
    def name(self) -> str: ...

    @property
    def cases(self) -> int: ...

    @property
    def holds(self) -> bool: ...

    @property
    def exact(self) -> bool:
        """Equal bits in every case."""

    @property
    def max_difference(self) -> float: ...

    @property
    def relative_difference(self) -> float: ...

    @property
    def information(self) -> bool: ...

    @property
    def detail(self) -> str:
        """The first case that fails."""

    def __repr__(self) -> str: ...

class Verification:
    """The laws that were tested on a model."""

    @property
    def laws(self) -> list[Law]: ...

    @property
    def tolerance(self) -> float: ...

    @property
    def holds(self) -> bool:
        """Every law holds."""

    @property
    def finish(self) -> str: ...

    def __repr__(self) -> str: ...

class Model:
    def __init__(self, path_or_name: str, **options: object) -> None: ...

    def session(self) -> Session: ...

    def load_session(self, file: str | os.PathLike[str]) -> Session: ...

    def load_prefix(self, file: str | os.PathLike[str]) -> int: ...

    def verify(self, ids: object | None, compare: bool, tolerance: float, progress: object | None) -> Verification: ...

    def generate(self, ids: object, session: Session | None, progress: object | None, **options: object) -> Generation: ...

    def step(self, sessions: Sequence[Session], tokens: object) -> None: ...

    def score(self, ids: object, progress: object | None, **options: object) -> Score: ...

    def embed(self, texts: object, progress: object | None, **options: object) -> NDArray[numpy.float32]: ...

    def hidden_states(self, texts: object) -> list[NDArray[numpy.float32]]: ...

    def translate(self, sources: object, progress: object | None, **options: object) -> list[Translation]: ...

    def transcribe(self, audio: object, sample_rate: int, progress: object | None, **options: object) -> Transcription: ...

    def can_embed(self) -> bool: ...

    def can_generate(self) -> bool: ...

    def max_embedding_tokens(self) -> int: ...

    def embedding_prompts(self) -> list[tuple[str, str]]: ...

    def embedding_size(self, **options: object) -> int: ...

    def feature_rank(self) -> int: ...

    def has_tokenizer(self) -> bool: ...

    def has_chat_template(self) -> bool: ...

    def has_encoder(self) -> bool: ...

    def vocab_size(self) -> int: ...

    def max_positions(self) -> int: ...

    def backend(self) -> str: ...

    def device(self) -> str: ...

    def weights_bytes(self) -> int: ...

    def cache_bytes_per_token(self) -> int: ...

    def cache_use(self) -> CacheUse: ...

    def load_ms(self) -> float: ...

    def eos_ids(self) -> list[int]: ...

    def start_ids(self) -> list[int]: ...

    def tokenize(self, text: object, add_special: bool) -> list[int]: ...

    def detokenize(self, ids: object, skip_special: bool) -> str: ...

    def apply_chat_template(self, messages_json: str, add_generation_prompt: bool) -> str: ...

class Tokenizer:
    @staticmethod
    def load(path_or_name: str) -> Tokenizer: ...

    def encode(self, text: object, add_special: bool, target: bool, language: str) -> list[int]: ...

    def decode(self, ids: object, skip_special: bool) -> str: ...

    def end_id(self) -> int: ...

class Detokenizer:
    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None: ...

    def push(self, id: int) -> str: ...

    def flush(self) -> str: ...

class ChatTemplate:
    @staticmethod
    def load(path_or_name: str) -> ChatTemplate: ...

    @staticmethod
    def from_file(file: str | os.PathLike[str], path_or_name: str) -> ChatTemplate: ...

    def empty(self) -> bool: ...

    def fault(self) -> str: ...

    def render(self, request_json: str) -> str: ...

class Constraint:
    @staticmethod
    def json_schema(schema: object) -> Constraint: ...

    @staticmethod
    def json_object() -> Constraint: ...

    @staticmethod
    def regex(pattern: object) -> Constraint: ...

    @staticmethod
    def grammar(gbnf: object) -> Constraint: ...

def inspect(path_or_name: str, **options: object) -> str: ...

def folder_of(path_or_name: str) -> pathlib.Path:
    """The folder of a model."""

class ModelInfo:
    """A model on the search path or in the hub cache."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> pathlib.Path: ...

    @property
    def kind(self) -> str: ...

    @property
    def weights_bytes(self) -> int: ...

    @property
    def cache_bytes(self) -> int:
        """For one sequence of the maximum length."""

    @property
    def fits(self) -> bool:
        """Whether it fits into free memory."""

    @property
    def recommended(self) -> bool:
        """The largest of its kind that fits."""

    def __repr__(self) -> str: ...

def list_models() -> list[ModelInfo]: ...

class Server:
    def __init__(self, models: Sequence[str], options: dict[str, object], load: dict[str, object]) -> None: ...

    def port(self) -> int: ...

    def url(self) -> str: ...

    def stop(self) -> None: ...
