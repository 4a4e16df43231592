"""The tokenizer of a pipeline."""
from __future__ import annotations

from typing import Any, Sequence

from .ids import Message, TokenIds
from .model import Model


class PipelineTokenizer:
    """The methods of transformers' tokenizers that scripts use as `pipe.tokenizer`, with the same names and defaults."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.eos_token_id = next(iter(model.eos_ids), None)
        self.bos_token_id = self._id_in_files("bos_token_id")
        self.pad_token_id = self._id_in_files("pad_token_id")

    @property
    def eos_token(self) -> str | None:
        """The text of the end token."""
        return None if self.eos_token_id is None else self.decode([self.eos_token_id])

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """Token ids of a text, and a mask of ones."""
        ids = self.encode(text, add_special_tokens=add_special_tokens)
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""
        return self._model.tokenize(text, add_special=add_special_tokens)

    def decode(self, token_ids: TokenIds, *, skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        return self._model.detokenize(token_ids, skip_special=skip_special_tokens)

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> Any:
        """The id of a token such as "<|im_end|>", or a list of ids for a list; None if a text is not one token."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        ids = self.encode(tokens, add_special_tokens=False)
        return ids[0] if len(ids) == 1 else None

    def apply_chat_template(
        self, conversation: Sequence[Message], *, tokenize: bool = True, add_generation_prompt: bool = False, **variables: Any
    ) -> str | list[int]:
        """The prompt of a conversation: token ids, or the text with tokenize=False."""
        text = self._model.apply_chat_template(conversation, add_generation_prompt=add_generation_prompt, **variables)
        return self.encode(text, add_special_tokens=False) if tokenize else text

    def __repr__(self) -> str:
        return f"kvik.pipeline(…).tokenizer of {self._model.name!r}"

    def _id_in_files(self, name: str) -> int | None:
        found = [self._model._file_options(file).get(name) for file in ("generation_config.json", "config.json")]
        return next((id for id in found if id is not None), None)
