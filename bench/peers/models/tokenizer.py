"""A vocabulary of any size that Kvik and llama.cpp read alike: byte-level BPE with ASCII, one merge and made-up words. Every id is whole characters, so that whatever
random weights choose is text."""
import json
import pathlib

END = 2


def ascii_letters() -> list[str]:
    """GPT-2's printable letter for each byte below 128."""
    return [chr(byte) if 33 <= byte < 127 else chr(256 + min(byte, 33) + max(0, byte - 127)) for byte in range(128)]


def tokens(n: int) -> list[str]:
    pieces = ascii_letters() + ["ab"]
    pieces += [f"w{i}" for i in range(len(pieces), n)]
    pieces[END] = "<|end|>"
    return pieces[:n]


def write(folder: pathlib.Path, n: int) -> None:
    """tokenizer.json and tokenizer_config.json."""
    pieces = tokens(n)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"id": END, "content": pieces[END], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
             "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": ["a b"]}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
                                                       "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2TokenizerFast", "eos_token": pieces[END], "model_max_length": 40960}))
