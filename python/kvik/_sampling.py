"""Sampling options, named as in Hugging Face. Written by tools/python/write_types from the table in src/sample/fields.cc."""
from __future__ import annotations

from typing import Mapping, Sequence, TypedDict

from .ids import TokenIds


class SamplingOptions(TypedDict, total=False):
    temperature: float | None
    # 0: always the most likely token; higher: more varied
    top_k: int | None
    # Sample from the K most likely tokens; 0: all
    top_p: float | None
    # Sample from the most likely tokens whose probabilities add up to P
    min_p: float | None
    # Sample from tokens at least P times as likely as the most likely one
    typical_p: float | None
    # Sample from the most typical tokens, up to probability P
    epsilon_cutoff: float | None
    # Sample from tokens of at least probability P
    eta_cutoff: float | None
    # Like epsilon-cutoff, with a threshold that falls with the entropy
    repetition_penalty: float | None
    # Above 1: tokens that occurred become less likely
    presence_penalty: float | None
    # Subtracted once from the logits of generated tokens
    frequency_penalty: float | None
    # Subtracted from the logits of generated tokens, once per occurrence
    encoder_repetition_penalty: float | None
    # Above 1: tokens of the source become more likely
    no_repeat_ngram_size: int | None
    # No sequence of N tokens repeats; 0: off
    encoder_no_repeat_ngram_size: int | None
    # No sequence of N tokens is copied from the source; 0: off
    min_length: int | None
    # No end token before this length, start tokens included
    min_new_tokens: int | None
    # No end token before this many new tokens
    forced_bos_token_id: int | None
    # First token of the target; -1: none is forced
    forced_eos_token_id: TokenIds | None
    # Last token when the length limit is reached; "": none is forced
    suppress_tokens: TokenIds | None
    # Tokens that are never generated; "": none
    begin_suppress_tokens: TokenIds | None
    # Tokens that are not generated first; "": none
    bad_words_ids: Sequence[TokenIds] | None
    # Tokens in a row that are never generated (repeatable); "": none
    sequence_bias: Mapping[tuple[int, ...], float] | None
    logit_bias: Mapping[int, float] | None
    # Added to the logit of a token (repeatable)
    exponential_decay_length_penalty: tuple[int, float] | None
    remove_invalid_values: bool | None
    # Replace NaN and infinite logits
    renormalize_logits: bool | None
    # With beams: normalize again after penalties
    seed: int | None
    # The same seed gives the same text on every machine
