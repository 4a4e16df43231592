"""A vocabulary of any size that Kvik and llama.cpp read alike: byte-level BPE with the 256 bytes, one merge and made-up words."""
import json
import pathlib

END = 2


def byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def tokens(n: int) -> list[str]:
    pieces = byte_letters() + ["ab"]
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
