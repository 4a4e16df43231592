"""translate, transcribe and verify of encoder-decoders, as scripts use them."""
import json
import pathlib
import struct

import pytest
from test_commands import FORMS, ROOT, kvik, refusal, succeed

TRANSLATOR = ROOT / "models" / "en-zh"
PAIR = FORMS / "translator-pair"
SPEECH = FORMS / "speech"
KNOWN = [json.loads(line) for line in (ROOT / "tests/fixtures/models-expected/en-zh/expected.jsonl").read_text().splitlines()]
LINES = [line.split("\t")[0] for line in (ROOT / "tests/fixtures/models-expected/en-zh/heldout.tsv").read_text().splitlines()]


def answer(*arguments, **more):
    return json.loads(succeed(*arguments, "--json", **more))


def wav(samples, rate=16000, channels=1, cut=0) -> bytes:
    data = struct.pack(f"<{len(samples)}h", *samples)
    chunks = b"fmt " + struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16) + b"data" + struct.pack("<I", len(data)) + data
    whole = b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks
    return whole[: len(whole) - cut]


def npy(shape, values) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


def tone(n: int) -> list[int]:
    return [(i * 37 % 200 - 100) * 100 for i in range(n)]


def test_lines_are_translated_in_order_and_empty_ones_stay_empty():
    chosen = [0, 57, 120]
    text = "\n".join([LINES[0], "", LINES[57], "   ", LINES[120]]) + "\n"
    printed = succeed("translate", TRANSLATOR, "--beams", 4, "-n", 64, text=text).split("\n")
    found = answer("translate", TRANSLATOR, "--beams", 4, "-n", 64, "--batch", 2, text=text)["results"]
    assert [r["ids"] for r in found] == [KNOWN[0]["beam4_ids"], [], KNOWN[57]["beam4_ids"], [], KNOWN[120]["beam4_ids"]]
    assert printed == [r["text"] for r in found] + [""]
    assert [found[i]["source_ids"] for i in (0, 2, 4)] == [KNOWN[i]["source_ids"] for i in chosen]
    assert all(r["finish"] == "stop" for r in found)


@pytest.mark.parametrize("backend", ["ort", "native"])
def test_source_ids_give_the_expected_greedy_ids(backend):
    ids = ",".join(map(str, KNOWN[3]["source_ids"]))
    found = answer("translate", TRANSLATOR, "--ids", ids, "--beams", 1, "-n", 64, "--backend", backend)
    assert found["results"][0]["ids"] == KNOWN[3]["greedy_ids"] and found["backend"] == backend
    assert {"load_ms", "translate_ms", "sentences_per_s", "tokens_per_s"} <= found["timing"].keys()


def test_the_encoder_and_the_cross_projections_run_once_per_line():
    timing = answer("translate", TRANSLATOR, "--beams", 4, "-n", 64, "--backend", "ort", text="\n".join(LINES[:5]))["timing"]
    assert timing["sources_encoded"] == 5 and timing["sources_projected"] == 5


def test_several_hypotheses_come_best_first():
    found = answer("translate", TRANSLATOR, LINES[5], "--beams", 4, "--num-return-sequences", 3)["results"][0]
    scores = [h["score"] for h in found["hypotheses"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert found["ids"] == found["hypotheses"][0]["ids"]


def test_a_seed_gives_the_same_samples_for_any_batch_size():
    options = ("--temperature", 1.2, "--top-k", 50, "--top-p", 0.95, "--seed", 7, "-n", 24)
    text = "\n".join(LINES[:4])
    first = answer("translate", TRANSLATOR, *options, text=text)["results"]
    second = answer("translate", TRANSLATOR, *options, "--batch", 1, text=text)["results"]
    assert [r["ids"] for r in first] == [r["ids"] for r in second]
    other = answer("translate", TRANSLATOR, *options[:-4], "--seed", 8, "-n", 24, text=text)["results"]
    assert [r["ids"] for r in first] != [r["ids"] for r in other]


def test_banned_and_forced_tokens_can_be_set_on_the_command_line():
    def ids(*options):
        return answer("translate", PAIR, "--ids", "45,34,34,40", "-n", 6, *options)["results"][0]["ids"]
    plain = ids()
    assert len(plain) == 6
    assert plain[0] not in ids("--suppress-tokens", plain[0])
    assert ids("--begin-suppress-tokens", plain[0])[0] != plain[0]
    assert ids("--bad-words-ids", f"{plain[0]},{plain[1]}")[:2] != plain[:2]
    assert ids("--forced-bos-token-id", 7)[0] == 7
    assert ids("--forced-eos-token-id", 9)[-1] == 9
    assert ids("--stop-ids", plain[2]) == plain[:3]
    assert len(ids("--stop-ids", plain[0], "--min-new-tokens", 3)) >= 4
    assert len(ids("--stop-ids", plain[0], "--min-length", 3)) >= 3
    assert ids("--decoder-start-token-id", 5) != plain
    assert len(set(ids("--no-repeat-ngram-size", 1))) == 6


def test_a_stop_text_ends_a_translation_before_it():
    found = answer("translate", TRANSLATOR, LINES[0], "--beams", 1)["results"][0]
    stopped = answer("translate", TRANSLATOR, LINES[0], "--beams", 1, "--stop", found["text"][2])["results"][0]
    assert stopped["text"] == found["text"][: found["text"].index(found["text"][2])] and stopped["finish"] == "stop"


def test_a_source_that_is_too_long_is_refused_or_truncated_with_a_warning():
    long = " ".join(LINES[:60])
    assert "--truncate" in refusal("translate", TRANSLATOR, long) and "256" in refusal("translate", TRANSLATOR, long)
    done = kvik("translate", TRANSLATOR, long, "--truncate", "--json", "-n", 4)
    assert done.returncode == 0 and "was truncated to 256" in done.stderr
    source = json.loads(done.stdout)["results"][0]["source_ids"]
    assert len(source) == 256 and source[-1] == KNOWN[0]["source_ids"][-1]


@pytest.mark.parametrize("arguments,sentence", [
    (("translate", TRANSLATOR, "x", "--beams", 4, "--temperature", 1), "exclude each other"),
    (("translate", TRANSLATOR, "x", "--beams", 1, "--num-return-sequences", 3), "greedy"),
    (("translate", TRANSLATOR, "x", "--language", "klingon"), "klingon"),
    (("translate", TRANSLATOR, "--features", "x.npy"), "reads token ids"),
    (("translate", SPEECH, "hello"), "kvik transcribe"),
    (("translate", FORMS / "plain", "--ids", "1"), "no encoder"),
    (("translate", PAIR, "--ids", "1,999"), "999"),
    (("transcribe", TRANSLATOR, "x.wav"), "cannot transcribe"),
    (("transcribe", SPEECH, "/nowhere/x.wav"), "/nowhere/x.wav"),
    (("transcribe", SPEECH, ROOT / "README.md"), "not a WAVE file"),
])
def test_translation_failures_print_one_sentence(arguments, sentence):
    assert sentence in refusal(*arguments)


def test_features_of_the_forms_formula_give_the_expected_ids(tmp_path):
    case = json.loads((SPEECH / "expect.json").read_text())["cases"][0]
    shape = case["audio_features"]["shape"]
    values = [((i * 37) % 101) / 50 - 1 for i in range(shape[0] * shape[1] * shape[2])]
    (tmp_path / "f.npy").write_bytes(npy(shape, values))
    options = ("--decoder-start-token-id", case["prompt_ids"][0], "-n", len(case["greedy_ids"]))
    for backend in ("ort", "reference"):
        assert answer("translate", SPEECH, "--features", tmp_path / "f.npy", "--backend", backend, *options)["results"][0]["ids"] == case["greedy_ids"]
        assert answer("transcribe", SPEECH, tmp_path / "f.npy", "--backend", backend, *options)["ids"] == case["greedy_ids"]


def test_a_recording_is_transcribed_window_by_window_at_any_sample_rate(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for part in SPEECH.iterdir():
        (model / part.name).symlink_to(part)
    (model / "preprocessor_config.json").write_text(json.dumps({"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000}))
    (tmp_path / "a.wav").write_bytes(wav(tone(40000)))
    transcription = answer("transcribe", tmp_path / "a.wav", "--model", model, "-n", 5)
    assert [(w["start_s"], w["end_s"]) for w in transcription["windows"]] == [(0, 1), (1, 2), (2, 2.5)]
    assert transcription["ids"] == sum((w["ids"] for w in transcription["windows"]), []) and transcription["start_ids"] == [0]
    assert answer("transcribe", model, tmp_path / "a.wav", "-n", 5, "--batch", 1)["ids"] == transcription["ids"]
    (tmp_path / "b.wav").write_bytes(wav([s for s in tone(44100) for _ in range(2)], rate=44100, channels=2))
    done = kvik("transcribe", model, tmp_path / "b.wav", "-n", 5)
    assert done.returncode == 0 and done.stderr.count("mixed into one; it is resampled from 44100 to 16000") == 1
    (tmp_path / "cut.wav").write_bytes(wav(tone(100), cut=7))
    assert "truncated" in refusal("transcribe", model, tmp_path / "cut.wav")
    assert "has only one" in refusal("transcribe", model, tmp_path / "a.wav", "--language", "de")


def test_transcribe_requires_a_model_and_one_recording():
    refusal("transcribe", "a.wav", status=2)
    refusal("transcribe", SPEECH, "a.wav", "b.wav", status=2)


@pytest.mark.parametrize("model", [PAIR, FORMS / "recurrent-translator", SPEECH, TRANSLATOR])
@pytest.mark.parametrize("backend", ["ort", "auto"])
def test_verify_confirms_the_laws_of_an_encoder_decoder(model, backend):
    laws = {law["name"]: law for law in answer("verify", model, "--backend", backend)["laws"]}
    assert {"cached = uncached", "any split of the target", "forked = fresh", "batch = alone", "beam of width 1 = greedy"} <= laws.keys()
    assert backend != "ort" or {"encoder run once", "ort = reference"} <= laws.keys()
    assert all(law["holds"] and law["cases"] > 0 for law in laws.values()), laws


def test_verify_prints_one_line_per_law():
    printed = succeed("verify", PAIR, "--backend", "ort").splitlines()
    assert any(line.startswith("holds") and "encoder run once" in line for line in printed)
