"""A loaded model."""
from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Sequence, overload

import numpy as np
import numpy.typing as npt

from . import _kvik
from ._progress import reporting
from .engine import Engine
from .errors import Error
from .generation import Generation
from .ids import Message, Path, Progress, TokenIds
from .inputs import Audio, Sources, Texts, handle_of, recording_of, sources_of, texts_of
from .inspection import Inspection, inspect
from .options import describe_sampling
from .session import Session
from .task import Result, Task
from .text import ChatTemplate, Constraint

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import EmbedOptions, GenerateOptions, LoadOptions, TranscribeOptions, TranslateOptions

_logger = logging.getLogger("kvik")


def load_options(options: LoadOptions) -> dict[str, Any]:
    """Sends messages to Python's logging unless the caller passes `log`."""
    if options.get("log") is not None:
        return {"log_level": logging.DEBUG, **options}
    return {"log": _logger.log, "log_level": _logger.getEffectiveLevel(), **options}


class Model:
    """A loaded model; threads may share it.

    >>> model = kvik.Model("fable", weights="q8")
    >>> for piece in model.generate("Once upon a time", max_tokens=64, temperature=0.8):
    ...     print(piece, end="", flush=True)

    Sessions, generations and results keep their model alive.
    """

    def __init__(self, path_or_name: Path, **options: Unpack[LoadOptions]) -> None:
        """A folder, an .onnx file, the name of a model on the search path, or the name of a repository in the Hugging Face cache.

        backend (str): "auto", "native", "ort" or "reference"
        device (str): "auto", "cpu" or "cuda"; "auto" uses a GPU if there is a usable one
        device_index (int): which GPU, if there are several
        weights (str): "auto" (as stored), "f32", "f16", "q8" or "q4"
        kv (str): format of the KV cache: "auto", "f32", "f16" or "q8"
        kv_bytes (int): memory limit of the KV cache, for all sessions and cached prefixes; 0: no limit
        threads (int): 0: one per core, and fewer for steps of few tokens if that is faster
        context (int): maximum positions of a session; 0: the model's maximum
        variant (str): which precision, if a folder has several: "fp16", "q4", …
        reuse_prefixes (bool): do not recompute a prefix that any session of the model has computed before
        compile_cache (bool): cache plans and packed weights for the next start, as the command line does
        log: a function that takes a `logging` level and a message; default: the logger "kvik"
        isa, no_fuse, ort_library, cuda_library: the same as the flags of the command line
        """
        self.name = os.fspath(path_or_name)
        self._options = options
        self._handle = _kvik.Model(self.name, **load_options(options))
        self._lock = threading.Lock()
        self._own_engine: Engine | None = None
        self._files: dict[str, dict[str, Any]] = {}  # of its folder, as far as they were read

    # ---- generating

    def generate(
        self, prompt: str | TokenIds = "", *, session: Session | None = None, progress: Progress = None, **options: Unpack[GenerateOptions]
    ) -> Generation:
        """Text that continues a prompt (a text or token ids): an iterator, an async iterator and an awaitable; see `Generation`.

        With a session, tokens at the beginning of the prompt that it already contains are not recomputed, and afterward it contains the answer.
        Options that are not set are taken from the model's generation_config.json; without one, decoding is greedy:

          max_tokens or max_new_tokens (int): maximum number of new tokens; max_length (int): the same including the prompt
          do_sample (bool): False: greedy regardless of the files; True: with the files' temperature, else 1
          beams or num_beams (int), length_penalty (float), early_stopping (bool or "never"): beam search; the text arrives as one piece
          stop or stop_strings (str or list): texts that end the answer and are not part of it
          stop_ids (list of int): additional end tokens; eos_token_id (int or list of int): replaces the model's; ignore_eos (bool): ignores the model's
          json_schema (dict or str), regex (str), grammar (str) or constraint (Constraint): format of the text
          speculate ("lookup"), draft or assistant_model (Model): propose tokens; the output is the same
          logprobs (int): log-probabilities, in `Generation.tokens`
          use_cache (bool): False recomputes everything at every step, for comparison
        """
        ids = self._prompt(prompt)
        return Generation(self, ids, session, progress, self._decoding(dict(options), np.size(ids)))

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        session: Session | None = None,
        progress: Progress = None,
        template: dict[str, Any] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """The answer to a conversation: [{"role": "user", "content": "…"}, …]. Options as in `generate`; `template` goes to the chat template.

        With a session, only what is new since the last turn is computed.
        """
        text = self.apply_chat_template(messages, tools=tools, **(template or {}))
        ids = self.tokenize(text, add_special=False)
        return Generation(self, ids, session, progress, self._decoding(dict(options), len(ids)))

    def session(self) -> Session:
        """A new context."""
        return Session(self, self._handle.session())

    def load_session(self, file: Path) -> Session:
        """A session from a file of `Session.save`, of the same model loaded with the same options."""
        return Session(self, self._handle.load_session(file))

    def load_prefix(self, file: Path) -> int:
        """Loads such a file as a prefix for new sessions to reuse. Returns its number of tokens."""
        return self._handle.load_prefix(file)

    def step(self, sessions: Sequence[Session], tokens: TokenIds) -> None:
        """Appends one token to each of several different sessions in one run: to all of them or, if it fails, to none."""
        self._handle.step([handle_of(session, _kvik.Session, "a session") for session in sessions], tokens)

    # ---- other results

    def score(self, text: str | TokenIds, *, window: int = 0, progress: Progress = None) -> _kvik.Score:
        """Log-probability of every token given those before it. `window`: tokens per window; each starts with an empty context."""
        with reporting(progress, "score", "token") as report:
            return self._handle.score(self._prompt(text), report, window=window)

    @overload
    def translate(self, text: str, *, progress: Progress = None, **options: Unpack[TranslateOptions]) -> _kvik.Translation: ...

    @overload
    def translate(
        self, text: Sequence[Any] | npt.NDArray[Any], *, progress: Progress = None, **options: Unpack[TranslateOptions]
    ) -> list[_kvik.Translation]: ...

    def translate(
        self, text: Sources, *, progress: Progress = None, **options: Unpack[TranslateOptions]
    ) -> _kvik.Translation | list[_kvik.Translation]:
        """Encoder-decoder models: the translation of a text, or a list of them for a list of texts, of lists of token ids or of features.

        Options as in `generate`, and: language, source_language (str), num_return_sequences, decoder_start_token_id, batch (int), truncate (bool), scores (bool).
        """
        sources, more = sources_of(text), self._decoding(dict(options))
        with reporting(progress, "translate", "source") as report:
            results = self._handle.translate(sources, report, **more)
        return results[0] if isinstance(text, str) else results

    def transcribe(
        self, audio: Audio, sample_rate: int = 16000, *, progress: Progress = None, **options: Unpack[TranscribeOptions]
    ) -> _kvik.Transcription:
        """Speech models: the text of a WAVE file, of samples (one channel, from -1 to 1, any length and rate) or of windows of features.

        Options as in `generate`, and: language (str), task ("transcribe" or "translate"), timestamps (bool), batch (int).
        """
        recording, more = recording_of(audio), self._decoding(dict(options))
        with reporting(progress, "transcribe", "window") as report:
            return self._handle.transcribe(recording, sample_rate, report, **more)

    def embed(self, texts: Texts, *, progress: Progress = None, **options: Unpack[EmbedOptions]) -> npt.NDArray[np.float32]:
        """The vector of a text: [dimensions]; or of a list of texts or of lists of token ids: [texts, dimensions].

        pooling, normalize, prompt (or prompt_name), dimensions, truncate: the same as the flags of `kvik embed`; default: from the model's files.
        """
        with reporting(progress, "embed", "text") as report:
            vectors = self._handle.embed(texts_of(texts), report, **options)
        if not isinstance(texts, str):
            return vectors
        vector: npt.NDArray[np.float32] = vectors[0]
        return vector

    def hidden_states(self, texts: str | Sequence[Any]) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """The hidden states before pooling: [tokens, size] of a text, or a list of them for a list of texts or of lists of token ids. Views without a copy."""
        if isinstance(texts, str):
            return self._handle.hidden_states([self.tokenize(texts)])[0]
        return self._handle.hidden_states([self.tokenize(text) if isinstance(text, str) else text for text in texts])

    # ---- the same for asyncio tasks, which the model's engine batches together

    async def score_async(self, text: str | TokenIds, *, window: int = 0) -> _kvik.Score:
        """`score` for an asyncio task: tasks are batched together, and the event loop is not blocked."""
        return await _submitted(lambda: self._engine().score(text, window=window))

    @overload
    async def translate_async(self, text: str, **options: Unpack[TranslateOptions]) -> _kvik.Translation: ...

    @overload
    async def translate_async(self, text: Sequence[Any] | npt.NDArray[Any], **options: Unpack[TranslateOptions]) -> list[_kvik.Translation]: ...

    async def translate_async(self, text: Sources, **options: Unpack[TranslateOptions]) -> _kvik.Translation | list[_kvik.Translation]:
        """`translate` for an asyncio task."""
        submit: Callable[[], Task[Any]] = lambda: self._engine().translate(text, **options)
        result: _kvik.Translation | list[_kvik.Translation] = await _submitted(submit)
        return result

    async def transcribe_async(self, audio: Audio, sample_rate: int = 16000, **options: Unpack[TranscribeOptions]) -> _kvik.Transcription:
        """`transcribe` for an asyncio task."""
        return await _submitted(lambda: self._engine().transcribe(audio, sample_rate, **options))

    async def embed_async(self, texts: Texts, **options: Unpack[EmbedOptions]) -> npt.NDArray[np.float32]:
        """`embed` for an asyncio task."""
        return await _submitted(lambda: self._engine().embed(texts, **options))

    # ---- inspection

    def verify(
        self, ids: TokenIds | None = None, *, compare: bool = True, tolerance: float = 0.0, progress: Progress = None
    ) -> _kvik.Verification:
        """Tests whether this model's results depend on how they are computed."""
        with reporting(progress, "verify", "law") as report:
            return self._handle.verify(ids, compare, tolerance, report)

    def inspect(self) -> Inspection:
        """Describes the model's files."""
        return inspect(self.name, **self._options)

    # ---- text

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text."""
        return self._handle.tokenize(text, add_special)

    def detokenize(self, ids: TokenIds, *, skip_special: bool = True) -> str:
        """The text of token ids."""
        return self._handle.detokenize(ids, skip_special)

    def apply_chat_template(
        self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """Renders a conversation with the model's chat template."""
        if tools is None and not variables:
            return self._handle.apply_chat_template(json.dumps(list(messages)), add_generation_prompt)
        if tools is not None:
            variables["tools"] = list(tools)
        return ChatTemplate(self.name).render(messages, add_generation_prompt=add_generation_prompt, **variables)

    # ---- properties

    @property
    def vocab_size(self) -> int:
        """Number of logits."""
        return self._handle.vocab_size()

    @property
    def max_positions(self) -> int:
        """Longest context of the model; 0: unknown."""
        return self._handle.max_positions()

    @property
    def backend(self) -> str:
        """ "native", "ort" or "reference"."""
        return self._handle.backend()

    @property
    def device(self) -> str:
        """The device it runs on."""
        return self._handle.device()

    @property
    def weights_bytes(self) -> int:
        """Memory of the weights."""
        return self._handle.weights_bytes()

    @property
    def cache_use(self) -> _kvik.CacheUse:
        """Memory use of the KV cache, and how much computation it saved."""
        return self._handle.cache_use()

    @property
    def load_ms(self) -> float:
        """Time to load, in milliseconds."""
        return self._handle.load_ms()

    @property
    def eos_ids(self) -> list[int]:
        """End tokens."""
        return self._handle.eos_ids()

    @property
    def start_ids(self) -> list[int]:
        """Prompt to use if there is none (the bos token); empty if the model has no such token."""
        return self._handle.start_ids()

    @property
    def has_tokenizer(self) -> bool:
        """Whether texts can be passed instead of token ids."""
        return self._handle.has_tokenizer()

    @property
    def has_chat_template(self) -> bool:
        """Whether `chat` works."""
        return self._handle.has_chat_template()

    @property
    def has_encoder(self) -> bool:
        """Encoder-decoder: use translate or transcribe, not generate."""
        return self._handle.has_encoder()

    @property
    def can_embed(self) -> bool:
        """Whether `embed` and `hidden_states` work."""
        return self._handle.can_embed()

    @property
    def can_generate(self) -> bool:
        """False: the model only embeds."""
        return self._handle.can_generate()

    @property
    def feature_rank(self) -> int:
        """Number of axes of one source, if the encoder reads features; 0: it reads token ids, or there is no encoder."""
        return self._handle.feature_rank()

    @property
    def embedding_prompts(self) -> dict[str, str]:
        """Names and texts of the prompts that `embed` can put before a text."""
        return dict(self._handle.embedding_prompts())

    def embedding_size(self, **options: Unpack[EmbedOptions]) -> int:
        """Numbers in a vector of `embed`."""
        return self._handle.embedding_size(**options)

    def __repr__(self) -> str:
        return f"kvik.Model({self.name!r}, {self.backend} on {self.device}, {self.weights_bytes / 1e6:.1f} MB)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kvik.Model cannot be pickled or copied; threads can share it, and another process loads it by its name")

    # ---- for the other classes

    def _prompt(self, prompt: str | TokenIds) -> TokenIds:
        if isinstance(prompt, str):
            return self.tokenize(prompt) or self.start_ids
        if prompt is None:
            raise TypeError("a prompt must be a str or token ids, not None")
        return prompt

    # Options of Hugging Face that stand for others, and Python objects that stand for handles. `max_length` counts `n_before` tokens.
    def _decoding(self, options: dict[str, Any], n_before: int = 1) -> dict[str, Any]:
        options.pop("pad_token_id", None)  # nothing is padded
        _replace_end_tokens(options)
        _limit_length(options, n_before)
        do_sample = options.pop("do_sample", None)
        if do_sample is not None and options.get("temperature") is None:
            options["temperature"] = float(self._file_options().get("temperature") or 1.0) if do_sample else 0.0
        elif do_sample is False:
            options["temperature"] = 0.0
        if (assistant := options.pop("assistant_model", None)) is not None:
            if options.get("draft") is not None:
                raise TypeError("generate() got both 'draft' and 'assistant_model', which are names of the same option")
            options["draft"] = assistant
        constraints = {name: options.pop(name, None) for name in ("constraint", "json_schema", "regex", "grammar")}
        given = {name: value for name, value in constraints.items() if value is not None}
        if len(given) > 1:
            raise Error(f"{' and '.join(given)} were given; a text can have one constraint", "bad_argument")
        for name, value in given.items():
            constraint = value if name == "constraint" else getattr(Constraint, name)(value)
            options["constraint"] = _handle_of("constraint", constraint, Constraint)
        if options.get("draft") is not None:
            options["draft"] = _handle_of("draft", options["draft"], Model)
        return options

    def _file_options(self, name: str = "generation_config.json") -> dict[str, Any]:
        if name not in self._files:
            file = _kvik.folder_of(self.name) / name
            self._files[name] = json.loads(file.read_text()) if file.is_file() else {}
        return self._files[name]

    def _engine(self) -> Engine:
        with self._lock:
            if self._own_engine is None or self._own_engine._is_lost:
                self._own_engine = Engine(self)
            return self._own_engine


# Reading and tokenizing what was given takes time too: another thread does it.
async def _submitted(submit: Callable[[], Task[Result]]) -> Result:
    return await (await asyncio.to_thread(submit))


# eos_token_id replaces the model's end tokens; stop_ids adds to them.
def _replace_end_tokens(options: dict[str, Any]) -> None:
    ids = options.pop("eos_token_id", None)
    if ids is not None:
        added = options.get("stop_ids")
        options["stop_ids"] = np.concatenate([np.atleast_1d(each) for each in (ids, added) if each is not None])
        options["ignore_eos"] = True


# As in Hugging Face, max_new_tokens decides if both are given.
def _limit_length(options: dict[str, Any], n_before: int) -> None:
    max_length = options.pop("max_length", None)
    if max_length is None or options.get("max_tokens") is not None or options.get("max_new_tokens") is not None:
        return
    if not isinstance(max_length, (int, np.integer)):
        raise TypeError(f"max_length is {max_length!r}; expected an int")
    if max_length <= n_before:
        raise Error(f"max_length is {max_length}, and {n_before} tokens come before the first new one; set max_new_tokens", "bad_argument")
    options["max_tokens"] = int(max_length) - n_before


def _handle_of(name: str, value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}; expected a kvik.{kind.__name__}")
    return value._handle


if Model.generate.__doc__:
    Model.generate.__doc__ = Model.generate.__doc__.rstrip() + "\n\n        Sampling:\n" + describe_sampling().replace("\n", "\n        ")
