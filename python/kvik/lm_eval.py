"""A model class for EleutherAI's lm-eval: `lm_eval --model kvik --model_args pretrained=fable,weights=q8 --tasks …`."""
from __future__ import annotations

import concurrent.futures
from typing import Any, Sequence

import numpy as np
from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from . import from_pretrained
from .errors import Error
from .session import Session


@register_model("kvik")
class KvikLM(TemplateLM):  # type: ignore[misc]
    """`pretrained` names the model; the other arguments are options of `kvik.Model`, and batch_size requests run together."""

    def __init__(self, pretrained: str = "", batch_size: int | str = 8, max_gen_toks: int = 256, max_length: int | None = None, **options: Any) -> None:
        super().__init__()
        # lm-eval passes these to every model; the device is "cuda:0" even if none was chosen.
        ignored = ("max_batch_size", "trust_remote_code", *(("device",) if str(options.get("device")) != "cpu" else ()))
        options = {name: value for name, value in options.items() if name not in ignored}
        self.model = from_pretrained(pretrained, **options)
        self.max_gen_toks = int(max_gen_toks)
        self.max_length = int(max_length) if max_length else (self.model.max_positions or 2048)
        self.n_together = 8 if str(batch_size).startswith("auto") else int(batch_size)

    # ---- text

    @property
    def eot_token_id(self) -> int:
        return self.model.eos_ids[0]

    @property
    def prefix_token_id(self) -> int:
        return (self.model.start_ids or self.model.eos_ids)[0]

    @property
    def tokenizer_name(self) -> str:
        return self.model.name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return "" if chat_template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.model.apply_chat_template(chat_history, add_generation_prompt=add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        return self.model.tokenize(string, add_special=add_special_tokens is not False)

    # ---- requests

    def _loglikelihood_tokens(self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any) -> list[tuple[float, bool]]:
        with concurrent.futures.ThreadPoolExecutor(self.n_together) as pool:
            results = list(pool.map(lambda request: self._score(request[1], request[2]), requests))
        for (key, _context, _continuation), result in zip(requests, results):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, result)
        return results

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        sums = []
        for (text,) in [request.args for request in requests]:
            windows = utils.get_rolling_token_windows(
                token_list=self.tok_encode(text, add_special_tokens=False), prefix_token=self.prefix_token_id, max_seq_len=self.max_length, context_len=1
            )
            pairs = [(None, *utils.make_disjoint_window(window)) for window in windows]
            sums.append(sum(logprob for logprob, _ in self._loglikelihood_tokens(pairs)))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), sums[-1])
        return sums

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        texts = []
        streams = []
        for context, given in [request.args for request in requests]:
            options = dict(given)
            until = options.pop("until", None) or []
            n = int(options.pop("max_gen_toks", options.pop("max_new_tokens", self.max_gen_toks)))
            ids = self.tok_encode(context)[-max(self.max_length - n, 1) :]
            streams.append(
                self.model._engine().submit(
                    ids or self.model.start_ids,
                    max_tokens=n,
                    stop=[until] if isinstance(until, str) else list(until),
                    do_sample=bool(options.get("do_sample", False)),
                    temperature=float(options["temperature"]) if options.get("temperature") is not None else None,
                )
            )
        for request, stream in zip(requests, streams):
            texts.append(stream.text())
            self.cache_hook.add_partial("generate_until", request.args, texts[-1])
        return texts

    # ---- scoring

    def _score(self, context: list[int], continuation: list[int]) -> tuple[float, bool]:
        """Log-probability of a continuation, and whether greedy decoding would give it."""
        ids = (context + continuation)[-(self.max_length + 1) :]
        context, continuation = ids[: -len(continuation)], ids[-len(continuation) :]
        session = self.model.session()
        session.append(context)
        total, greedy = 0.0, True
        for row, id in zip(_logits(session, continuation[:-1]), continuation):
            row = row.astype(np.float64)
            largest = row.max()
            total += float(row[id] - largest - np.log(np.exp(row - largest).sum()))
            greedy = greedy and int(row.argmax()) == id
        return total, greedy


def _logits(session: Session, ids: list[int]) -> list[Any]:
    """The logits after the session's tokens, and after each of the ids."""
    rows = [session.logits]
    if not ids:
        return rows
    try:
        tree = session.append_tree(ids, range(-1, len(ids) - 1))
        return rows + [tree[i] for i in range(len(ids))]
    except Error as error:
        if error.code != "unsupported":
            raise
    for id in ids:  # the backend does not support trees
        session.append(id)
        rows.append(session.logits)
    return rows
