"""Random tokenizers and random texts, against the tokenizers package from PyPI.

A few seconds by default; KVIK_DIFFERENTIAL_ROUNDS=5000 and KVIK_DIFFERENTIAL_SEED=… for a longer run by hand.
"""

import json
import os
import pathlib
import random
import subprocess
import tempfile

import pytest

tokenizers = pytest.importorskip("tokenizers", reason="the tokenizers package is not installed; run ./dev test")

KVIK = pathlib.Path(os.environ.get("KVIK_BINARY_DIR", "build")) / "kvik"
ROUNDS = int(os.environ.get("KVIK_DIFFERENTIAL_ROUNDS", "150"))
SEED = int(os.environ.get("KVIK_DIFFERENTIAL_SEED", "20240611"))

WORDS = """the and of to in that was his with as had her not but at on him they be from all this which one said she my there
so we when or an were been more what who could out them then do up into no your now did like very than some time little
Once upon don't I'm we've they'll it's you're he'd naïve café Zürich ΑΒΓ Σίσυφος ΟΔΟΣ привет мир שלום عربي हिन्दी ไทย 中文字符 東京 タワー
ひらがな 한국어 각 ẞß İstanbul ſ ﬁ ² ½ Ⅷ １２３ ٣٤٥ 12 345 6789 3.14 1,000 x=y+1; foo_bar() #tag @me http://a.b/c?d=e&f
👍 👍🏽 👨‍👩‍👧 🇩🇪 ❤️ e\u0301 a\u0302\u0301 \u1112\u1161\u11ab o\u0323\u0302 \u200b \u00ad \ufeff \u2028 \u0085 \u3000 \u00a0 \x00 \x07 \ufffd \u2581
<s> </s> <unk> [CLS] [SEP] [MASK] <0x41> <0xE2> <|tok|> word ''' ... --- !!! ？！ 。 、 «x» “q” — … ▁a ▁▁ Ġa""".split(" ")
WORDS = [w for chunk in WORDS for w in chunk.split("\n")]
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "", "", " \n ", "\r\n", "\u3000", "\u00a0"]
ALPHABET = sorted({c for w in WORDS for c in w} | set(" \n\t"))


def random_text(rng):
    kind = rng.random()
    if kind < 0.08:
        return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(12)))
    if kind < 0.12:
        return rng.choice(ALPHABET) * rng.randrange(1, 300)
    parts = []
    for _ in range(rng.randrange(1, 14)):
        parts += [rng.choice(WORDS), rng.choice(SPACES)]
    if rng.random() < 0.3:
        parts.insert(0, rng.choice(SPACES))
    return "".join(parts)


def byte_alphabet():
    printable = list(range(33, 127)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte], extra = chr(extra), extra + 1
    return table


BYTES = byte_alphabet()


def fragments(rng, count, mapped):
    """Short pieces of the words, so that vocabularies meet the texts."""
    out = []
    for _ in range(count):
        word = rng.choice(["", "", "▁", " "]) + rng.choice(WORDS)
        if mapped:
            word = "".join(BYTES[b] for b in word.encode())
        begin = rng.randrange(len(word) + 1)
        piece = word[begin : begin + rng.randrange(1, 6)]
        if piece:
            out.append(piece)
    return out


def random_bpe(rng, mapped):
    prefix = rng.choice([None, None, None, "", "##"])
    suffix = rng.choice([None, None, None, "", "</w>"])
    letters = list(BYTES.values()) if mapped else [c for c in ALPHABET if rng.random() < 0.9]
    pieces = list(dict.fromkeys(letters))
    if prefix:
        pieces += [prefix + c for c in pieces[:]]
    if suffix:
        pieces += [c + suffix for c in pieces[:] if len(c) < 5]
    known, merges = set(pieces), []
    targets = fragments(rng, 400, mapped)
    for target in targets:
        # Merge the target from left to right, so that ranks fit together now and then.
        left = target[0]
        for i, c in enumerate(target[1:]):
            right = (prefix or "") + c
            if rng.random() < 0.3 and suffix and i == len(target) - 2:
                right += suffix
            joined = left + right[len(prefix or "") :]
            if left not in known or right not in known:
                break
            if joined not in known:
                pieces.append(joined)
                known.add(joined)
            merges.append((left, right))
            left = joined
    merges = list(dict.fromkeys(merges))
    rng.shuffle(merges)
    specials = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if rng.random() < 0.5 else [])
    vocab = {piece: i for i, piece in enumerate(specials + [p for p in pieces if p not in specials])}
    pairs = [list(m) for m in merges] if rng.random() < 0.5 else [" ".join(m) for m in merges if " " not in m[0] + m[1]]
    model = {"type": "BPE", "dropout": None, "unk_token": rng.choice([None, "<unk>"]), "continuing_subword_prefix": prefix,
             "end_of_word_suffix": suffix, "fuse_unk": rng.random() < 0.5, "byte_fallback": rng.random() < 0.5,
             "ignore_merges": rng.random() < 0.3, "vocab": vocab, "merges": pairs}
    if isinstance(pairs[0] if pairs else "", str):
        model["merges"] = [m for m in pairs if m.count(" ") == 1]
    if rng.random() < 0.2:
        del model["type"]
    if rng.random() < 0.2:
        del model["byte_fallback"], model["ignore_merges"]
    return model


def random_unigram(rng, mapped):
    pieces = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if rng.random() < 0.4 else [])
    pieces += [c for c in (BYTES.values() if mapped else ALPHABET) if rng.random() < 0.85]
    pieces = list(dict.fromkeys(pieces + fragments(rng, 400, mapped)))
    scores = [0.0 if i < 3 else -rng.choice([rng.random() * 12, 3.0, 5.5]) for i in range(len(pieces))]
    return {"type": "Unigram", "unk_id": 0, "vocab": [list(p) for p in zip(pieces, scores)], "byte_fallback": rng.random() < 0.5}


def random_wordpiece(rng, mapped):
    prefix = rng.choice(["##", "##", "", "@@"])
    pieces = ["[UNK]", "[CLS]", "[SEP]", "<unk>"] + [c for c in (BYTES.values() if mapped else ALPHABET) if rng.random() < 0.9]
    pieces += [prefix + c for c in pieces[4:]] + fragments(rng, 200, mapped) + [prefix + f for f in fragments(rng, 200, mapped)]
    vocab = {p: i for i, p in enumerate(dict.fromkeys(pieces))}
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix,
            "max_input_chars_per_word": rng.choice([100, 100, 8]), "vocab": vocab}


def random_wordlevel(rng, mapped):
    pieces = ["<unk>"] + [w for w in WORDS if rng.random() < 0.7] + list(".,!?'") + fragments(rng, 100, mapped)
    return {"type": "WordLevel", "unk_token": "<unk>", "vocab": {p: i for i, p in enumerate(dict.fromkeys(pieces))}}


REGEXES = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+",
    r"[\p{Han}]+|[\p{L}&&[^\p{Han}]]+|\d{,2}|[[:punct:]]+",
    r"\w+|[^\w\s]+", r"\s+", r"\S+", r"\d", r"[0-9]{2}?", r"^.", r"\b", r"x*", r"(?<=\p{L})\d|\.$", r"[\p{P}\p{S}]", r"(\p{L})\1",
    r"[^[:alnum:][:space:]]", r"\h+", r"[a-z[A-C]]", r"(?m).+", r"\u4e2d|\x{6587}", r"a(?i)b|c|The", r"\p{^L}+", r"\P{L}{2,}", r"\R|\X", " ", "",
    r"[\s\S]{1,4}", r"\p{Alphabetic}+\p{Letter}?", r"\p{Greek}+|\p{Cyrillic}+", r"[^\W\d_]+", r"(?x) \p{L} + ", r"\p{Alnum}{3}+", r"a**|e+?",
]  # fmt: skip
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def random_pattern(rng):
    if rng.random() < 0.3:
        return {"String": rng.choice([" ", "▁", "a", "the", "..", "é", "-", "\n"])}
    return {"Regex": rng.choice(REGEXES)}


def random_normalizer(rng, depth=0):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Replace", "Prepend", "BertNormalizer", "Nmt",
                       "ByteLevel", "Sequence", "Sequence"])  # fmt: skip
    if kind == "Sequence":
        if depth > 1:
            return {"type": "NFC"}
        return {"type": kind, "normalizers": [random_normalizer(rng, depth + 1) for _ in range(rng.randrange(4))]}
    extra = {
        "Strip": lambda: {"strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5},
        "Replace": lambda: {"pattern": random_pattern(rng), "content": rng.choice(["", " ", "▁", "xy", "é"])},
        "Prepend": lambda: {"prepend": rng.choice(["▁", " ", "ab"])},
        "BertNormalizer": lambda: {"clean_text": rng.random() < 0.5, "handle_chinese_chars": rng.random() < 0.5,
                                   "strip_accents": rng.choice([None, True, False]), "lowercase": rng.random() < 0.5},
    }  # fmt: skip
    return {"type": kind, **extra.get(kind, dict)()}


def metaspace(rng):
    scheme = rng.choice(["always", "first", "never"])
    out = {"type": "Metaspace", "replacement": rng.choice(["▁", "▁", "_"]), "prepend_scheme": scheme}
    if rng.random() < 0.5:
        out["split"] = rng.random() < 0.5
    if rng.random() < 0.2:
        out.update({"add_prefix_space": scheme != "never", "str_rep": out["replacement"]})
    return out


def random_pre_tokenizer(rng, depth=0):
    kind = rng.choice(["BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Metaspace", "Metaspace", "Whitespace", "Split", "Split",
                       "Punctuation", "WhitespaceSplit", "Digits", "UnicodeScripts", "FixedLength", "Sequence", "Sequence"])  # fmt: skip
    if kind == "Sequence":
        if depth > 1:
            return {"type": "WhitespaceSplit"}
        return {"type": kind, "pretokenizers": [random_pre_tokenizer(rng, depth + 1) for _ in range(rng.randrange(4))]}
    if kind == "Metaspace":
        return metaspace(rng)
    extra = {
        "ByteLevel": lambda: {"add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": rng.random() < 0.6},
        "CharDelimiterSplit": lambda: {"delimiter": rng.choice([" ", "e", "中", "\n"])},
        "Split": lambda: {"pattern": random_pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.3},
        "Punctuation": lambda: {"behavior": rng.choice(BEHAVIORS)},
        "Digits": lambda: {"individual_digits": rng.random() < 0.5},
        "FixedLength": lambda: {"length": rng.randrange(1, 6)},
    }
    return {"type": kind, **extra.get(kind, dict)()}


def random_decoder(rng, depth=0):
    kind = rng.choice(["BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Replace", "Fuse", "Strip", "ByteFallback", "Sequence",
                       "Sequence"])  # fmt: skip
    if kind == "Sequence":
        if depth > 1:
            return {"type": "Fuse"}
        return {"type": kind, "decoders": [random_decoder(rng, depth + 1) for _ in range(rng.randrange(5))]}
    if kind == "Metaspace":
        return metaspace(rng)
    extra = {
        "BPEDecoder": lambda: {"suffix": rng.choice(["</w>", "e", "▁"])},
        "ByteLevel": lambda: {"add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "WordPiece": lambda: {"prefix": rng.choice(["##", "a"]), "cleanup": rng.random() < 0.5},
        "CTC": lambda: {"pad_token": rng.choice(["<pad>", "a"]), "word_delimiter_token": rng.choice(["|", "e"]), "cleanup": rng.random() < 0.5},
        "Replace": lambda: {"pattern": random_pattern(rng), "content": rng.choice(["", " ", "xy"])},
        "Strip": lambda: {"content": rng.choice([" ", "a", "▁"]), "start": rng.randrange(3), "stop": 0},
    }
    return {"type": kind, **extra.get(kind, dict)()}


def random_post_processor(rng, depth=0):
    kind = rng.choice(["TemplateProcessing", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"])
    if kind == "Sequence":
        return {"type": kind, "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                                             random_post_processor(rng, 1)] if depth == 0 else []}  # fmt: skip
    if kind == "TemplateProcessing":
        names = ["<s>", "</s>"]
        place = lambda: rng.choice([{"SpecialToken": {"id": rng.choice(names), "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}])
        return {"type": kind, "single": [{"Sequence": {"id": "A", "type_id": 0}}] + [place() for _ in range(rng.randrange(3))],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {n: {"id": n, "ids": [i + 1], "tokens": [n]} for i, n in enumerate(names)}}  # fmt: skip
    if kind == "ByteLevel":
        return {"type": kind, "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    extra = {"trim_offsets": True, "add_prefix_space": True} if kind == "RobertaProcessing" else {}
    return {"type": kind, "sep": ["</s>", 2], "cls": ["<s>", 1], **extra}


def random_added(rng, model):
    contents = rng.sample(["<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "<|tok|>", "word", "the", " x", "é", "Σ", "é and", "▁a", "  ", "12"], rng.randrange(7))
    vocab = model["vocab"] if isinstance(model["vocab"], dict) else {p: i for i, (p, _) in enumerate(model["vocab"])}
    next_id, out = len(vocab), []
    for content in contents:
        identifier = vocab.get(content)
        if identifier is None:
            identifier, next_id = next_id, next_id + 1
        special = rng.random() < 0.5
        out.append({"id": identifier, "content": content, "single_word": rng.random() < 0.25, "lstrip": rng.random() < 0.3,
                    "rstrip": rng.random() < 0.3, "normalized": rng.random() < 0.5, "special": special})  # fmt: skip
    return out


def random_tokenizer(rng):
    pre = random_pre_tokenizer(rng) if rng.random() < 0.8 else None
    mapped = "ByteLevel" in json.dumps(pre)
    model = rng.choice([random_bpe, random_bpe, random_unigram, random_wordpiece, random_wordlevel])(rng, mapped)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": random_added(rng, model),
            "normalizer": random_normalizer(rng) if rng.random() < 0.6 else None, "pre_tokenizer": pre,
            "post_processor": random_post_processor(rng) if rng.random() < 0.6 else None,
            "decoder": random_decoder(rng) if rng.random() < 0.85 else None, "model": model}  # fmt: skip


def attempt(f):
    """What the reference answers, None where it fails or panics."""
    try:
        return f()
    except BaseException as e:  # a panic of the reference is no Exception
        if isinstance(e, (KeyboardInterrupt, SystemExit)):
            raise
        return None


def ask(folder, requests):
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([KVIK, "tokenize", folder, "--json-lines"], input=lines.encode(), capture_output=True, timeout=120)
    if done.returncode != 0:
        return done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def questions(rng, reference):
    """Requests with the reference's answers."""
    asked = []
    end = reference.get_vocab_size(with_added_tokens=True)
    for _ in range(12):
        text = random_text(rng)
        special = rng.random() < 0.5
        expected = attempt(lambda: reference.encode(text, add_special_tokens=special).ids)
        asked.append(({"text": text, "special": special}, expected if expected is None else {"ids": expected}))
        ids = expected if expected and rng.random() < 0.5 else [rng.randrange(end) for _ in range(rng.randrange(12))]
        ids = [i for i in ids if reference.id_to_token(i) is not None]
        skip = rng.random() < 0.5
        decoded = attempt(lambda: reference.decode(ids, skip_special_tokens=skip))
        for stream in (False, True):
            asked.append(({"ids": ids, "skip_special": skip, "stream": stream}, decoded if decoded is None else {"text": decoded}))
    return asked


def check(seed, folder):
    rng = random.Random(seed)
    described = random_tokenizer(rng)
    reference = attempt(lambda: tokenizers.Tokenizer.from_str(json.dumps(described)))
    if reference is None:
        return 0
    (pathlib.Path(folder) / "tokenizer.json").write_text(json.dumps(described))
    asked = [(q, a) for q, a in questions(rng, reference) if a is not None]
    answers = ask(folder, [q for q, _ in asked])
    parts = {k: described[k] for k in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")}
    parts["model"] = {k: v for k, v in described["model"].items() if k not in ("vocab", "merges")}
    assert not isinstance(answers, str), f"seed {seed}: {answers} {parts}"
    for (question, expected), answer in zip(asked, answers, strict=True):
        assert answer == expected, f"seed {seed}: {question} {json.dumps(parts, ensure_ascii=False)}"
    return len(asked)


def test_random_tokenizers_answer_as_the_reference_does():
    os.environ.setdefault("RUST_BACKTRACE", "0")
    n_asked = 0
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(ROUNDS):
            n_asked += check(SEED + round_, folder)
    assert n_asked > ROUNDS


SENTENCEPIECE_MODELS = [
    {"model_type": "unigram", "vocab_size": 200},
    {"model_type": "unigram", "vocab_size": 450, "byte_fallback": True, "user_defined_symbols": ["<sep>", "the", "é"]},
    {"model_type": "unigram", "vocab_size": 200, "add_dummy_prefix": False, "remove_extra_whitespaces": False},
    {"model_type": "bpe", "vocab_size": 220, "normalization_rule_name": "nfkc_cf"},
    {"model_type": "bpe", "vocab_size": 450, "byte_fallback": True, "remove_extra_whitespaces": False, "normalization_rule_name": "identity"},
    {"model_type": "bpe", "vocab_size": 230, "treat_whitespace_as_suffix": True, "user_defined_symbols": ["the", "ing"]},
    {"model_type": "word", "vocab_size": 60},
    {"model_type": "char", "vocab_size": 150, "normalization_rule_name": "nmt_nfkc"},
]


@pytest.mark.parametrize("fields", SENTENCEPIECE_MODELS, ids=lambda fields: fields["model_type"])
def test_random_texts_are_cut_as_sentencepiece_does(fields, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece", reason="the sentencepiece package is not installed; run ./dev test")
    rng = random.Random(SEED)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(rng.choice(WORDS) for _ in range(12)).replace("\x00", "") for _ in range(300)))
    options = {"hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1, **fields}
    sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(tmp_path / "model"), **options)
    corpus.unlink()
    reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))
    asked = []
    for _ in range(80):
        text = random_text(rng).replace("\x00", "")
        ids = reference.encode(text)
        asked.append(({"text": text}, {"ids": ids}))
        if rng.random() < 0.5:
            ids = [rng.randrange(reference.vocab_size()) for _ in range(rng.randrange(10))]
        for stream in (False, True):
            asked.append(({"ids": ids, "skip_special": False, "stream": stream}, {"text": reference.decode(ids)}))
    answers = ask(tmp_path, [q for q, _ in asked])
    assert not isinstance(answers, str), answers
    for (question, expected), answer in zip(asked, answers, strict=True):
        assert answer == expected, question
