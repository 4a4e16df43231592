"""kvik transcribe --timestamps against the rules of the reference implementation, written again with numpy over ONNX Runtime."""
import json
import re
import shutil
import struct

import numpy as np
import onnxruntime
import pytest
from command_line import ROOT, refusal, succeed

SPEECH = ROOT / "tests/fixtures/zoo/small-speech"
CONFIG = json.loads((SPEECH / "generation_config.json").read_text())
EOS, FIRST_TIME, VOCAB = CONFIG["eos_token_id"], CONFIG["no_timestamps_token_id"] + 1, 120
START = [CONFIG["decoder_start_token_id"], CONFIG["lang_to_id"]["<|de|>"], CONFIG["task_to_id"]["transcribe"]]
OPTIONS = ["--language", "de", "--task", "transcribe"]
S_PER_INDEX, WINDOW_S, RATE = 0.02, 1.0, 16000


def answer(*arguments, model=SPEECH):
    return json.loads(succeed("transcribe", model, *arguments, *OPTIONS, "--json"))


def changed_model(folder, **config):
    """The same model with another generation_config.json."""
    shutil.copytree(SPEECH, folder / "model", copy_function=shutil.copyfile)
    (folder / "model/generation_config.json").write_text(json.dumps(CONFIG | config))
    return folder / "model"


def apply_rules(scores, generated, max_initial=None):
    """ApplyTimestampRules, after the tokens that are always suppressed."""
    scores[FIRST_TIME - 1] = -np.inf
    last = len(generated) >= 1 and generated[-1] >= FIRST_TIME
    penultimate = len(generated) < 2 or generated[-2] >= FIRST_TIME
    if last and penultimate:
        scores[FIRST_TIME:] = -np.inf
    elif last:
        scores[:EOS] = -np.inf
    times = [t for t in generated if t >= FIRST_TIME]
    if times:
        scores[FIRST_TIME:times[-1] + (0 if last and not penultimate else 1)] = -np.inf
    if not generated:
        scores[:FIRST_TIME] = -np.inf
        if max_initial is not None:
            scores[FIRST_TIME + max_initial + 1:] = -np.inf
    logprobs = scores - np.logaddexp.reduce(scores)
    if np.logaddexp.reduce(logprobs[FIRST_TIME:]) > logprobs[:FIRST_TIME].max():
        scores[:FIRST_TIME] = -np.inf


def greedy(features, max_initial=None):
    encoder, decoder = (onnxruntime.InferenceSession(str(SPEECH / f"{n}.onnx"), providers=["CPUExecutionProvider"])
                        for n in ("encoder_model", "decoder_model_merged"))
    hidden = encoder.run(None, {"input_features": features})[0]
    tokens = list(START)
    while len(tokens) < CONFIG["max_length"]:
        feeds = {"input_ids": np.array([tokens]), "encoder_hidden_states": hidden, "use_cache_branch": np.array([False])}
        for port in decoder.get_inputs():
            if port.name.startswith("past"):
                feeds[port.name] = np.zeros([1, port.shape[1], 0, port.shape[3]], np.float32)
        scores = decoder.run(["logits"], feeds)[0][0, -1].astype(np.float64)
        scores[CONFIG["suppress_tokens"]] = -np.inf
        if len(tokens) == len(START):
            scores[CONFIG["begin_suppress_tokens"]] = -np.inf
        apply_rules(scores, tokens[len(START):], max_initial)
        tokens.append(int(scores.argmax()))
        if tokens[-1] == EOS:
            break
    return tokens[len(START):]


def cut(ids, window_s=WINDOW_S):
    """Segments of a window, and where the next one begins."""
    ids = ids[:-1] if ids and ids[-1] == EOS else ids
    is_time = [i >= FIRST_TIME for i in ids]
    seconds = lambda i: (i - FIRST_TIME) * S_PER_INDEX
    single = is_time[-2:] == [False, True]
    ends = [i for i in range(1, len(ids)) if is_time[i - 1] and is_time[i]]
    if not ends:
        times = [i for i in ids if i >= FIRST_TIME]
        return [(0.0, seconds(times[-1]) if times and times[-1] != FIRST_TIME else window_s, ids)], window_s
    ends += [len(ids)] if single else []
    found, begin = [], 0
    for end in ends:
        found.append((seconds(ids[begin]), seconds(ids[end - 1]), ids[begin:end]))
        begin = end
    return found, window_s if single else seconds(ids[begin - 1])


def npy(path, values):
    np.save(path, values)
    return path


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backend", ["native", "ort"])
def test_a_window_has_the_tokens_of_the_reference(tmp_path, seed, backend):
    features = np.random.default_rng(seed).standard_normal((1, 8, 100)).astype(np.float32)
    found = answer(npy(tmp_path / "f.npy", features[0]), "--timestamps", "--backend", backend)
    expected = greedy(features)
    assert found["windows"][0]["ids"] == expected and found["start_ids"] == START
    segments, _ = cut(expected)
    assert [s["ids"] for s in found["segments"]] == [ids for _, _, ids in segments]
    assert np.allclose([[s["start_s"], s["end_s"]] for s in found["segments"]], [[a, b] for a, b, _ in segments])


def test_the_first_timestamp_has_a_limit_if_the_model_sets_one(tmp_path):
    model = changed_model(tmp_path, max_initial_timestamp_index=1)
    features = np.random.default_rng(3).standard_normal((1, 8, 100)).astype(np.float32)
    found = answer(npy(tmp_path / "f.npy", features[0]), "--timestamps", model=model)
    assert found["windows"][0]["ids"] == greedy(features, 1) and found["windows"][0]["ids"][0] <= FIRST_TIME + 1


def write_wav(path, samples):
    data = struct.pack(f"<{len(samples)}h", *samples)
    chunks = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE, RATE * 2, 2, 16) + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path


def noise(n):
    return (np.random.default_rng(7).standard_normal(n) * 3000 * (1 + np.sin(np.arange(n) / 900))).clip(-32000, 32000).astype(int).tolist()


def test_windows_of_a_long_recording_follow_the_times(tmp_path):
    samples = noise(int(1.35 * RATE))
    # So few words are left that times are often likelier together.
    model = changed_model(tmp_path, suppress_tokens=[i for i in range(FIRST_TIME) if i not in (EOS, 20, 31, 42)])
    found = answer(write_wav(tmp_path / "long.wav", samples), "--timestamps", model=model)
    start, segments = 0.0, []
    for window in found["windows"]:
        assert window["start_s"] == pytest.approx(start)
        length = min(WINDOW_S, len(samples) / RATE - start)
        alone = answer(write_wav(tmp_path / "part.wav", samples[round(start * RATE):]), "--timestamps", model=model)
        assert alone["windows"][0]["ids"] == window["ids"]
        parts, advance = cut(window["ids"], length)
        segments += [(start + a, start + b, ids) for a, b, ids in parts]
        start += advance
    assert start >= len(samples) / RATE - 1e-6 and len(found["windows"]) > 2  # two without moving
    assert [s["ids"] for s in found["segments"]] == [ids for _, _, ids in segments]
    assert found["ids"] == [i for _, _, ids in segments for i in ids]
    starts = [s["start_s"] for s in found["segments"]]
    assert starts == sorted(starts)


def test_subtitles_have_the_times_of_the_segments(tmp_path):
    wav = write_wav(tmp_path / "a.wav", noise(RATE))
    segments = answer(wav, "--timestamps")["segments"]
    srt = succeed("transcribe", SPEECH, wav, *OPTIONS, "--srt")
    vtt = succeed("transcribe", SPEECH, wav, *OPTIONS, "--vtt")
    lines = succeed("transcribe", SPEECH, wav, *OPTIONS, "--timestamps").splitlines()
    times = [f"00:00:{s['start_s']:06.3f} --> 00:00:{s['end_s']:06.3f}" for s in segments]
    assert re.findall(r"^\S+ --> \S+$", srt, re.M) == [t.replace(".", ",") for t in times]
    assert [block.splitlines()[0] for block in srt.strip().split("\n\n")] == [str(i + 1) for i in range(len(segments))]
    assert vtt.startswith("WEBVTT\n\n") and re.findall(r"^\S+ --> \S+$", vtt, re.M) == times
    assert [line.split("]")[0] for line in lines] == ["[" + t for t in times]


def test_without_the_option_nothing_changes(tmp_path):
    found = answer(write_wav(tmp_path / "a.wav", noise(RATE)))
    assert found["start_ids"] == START + [FIRST_TIME - 1] and "segments" not in found


def test_timestamps_without_timestamp_tokens_are_an_error(tmp_path):
    message = refusal("transcribe", ROOT / "tests/fixtures/forms/speech", write_wav(tmp_path / "a.wav", noise(RATE)), "--timestamps")
    assert "no timestamp tokens" in message
