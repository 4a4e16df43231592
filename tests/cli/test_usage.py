"""Wrong usage gets one sentence that says what was expected, and the nearest word if one was misspelled."""
import json
import re

import pytest
from command_line import FABLE, FORMS, KVIK, kvik, refusal, succeed


@pytest.mark.parametrize("arguments,sentence", [
    (("run", FABLE, "x", "--max-tokns", "5"), "'run' has no option '--max-tokns'; did you mean --max-tokens? kvik run --help lists them"),
    (("run", FABLE, "x", "--temprature=0"), "'run' has no option '--temprature'; did you mean --temperature? kvik run --help lists them"),
    (("run", FABLE, "x", "--temp", "0"), "'run' has no option '--temp'; did you mean --temperature? kvik run --help lists them"),
    (("run", FABLE, "x", "--frobnicate"), "'run' has no option '--frobnicate'; kvik run --help lists them"),
    (("inpsect", FABLE), "there is no command 'inpsect'; did you mean inspect? kvik --help lists them"),
    (("frobnicate",), "there is no command 'frobnicate'; kvik --help lists them"),
    (("--versoin",), "there is no option '--versoin'; did you mean --version? kvik --help lists them"),
    (("run", FABLE, "x", "y"), "run: unexpected argument 'y'; see kvik run --help"),
    (("run", FABLE, "x", "-n", "-5"), "run: --max-tokens: -5 is out of range; 0 or more was expected; see kvik run --help"),
    (("run", FABLE, "x", "--context", "-1"), "run: --context: -1 is out of range; 0 or more was expected; see kvik run --help"),
    (("run", FABLE, "x", "--threads", "5000"), "run: --threads: 5000 is out of range; 0 to 1024 was expected; see kvik run --help"),
    (("run", FABLE, "x", "--device", "cuda:x"), "run: --device: unknown device 'cuda:x'; expected auto, cpu, cuda or cuda:N; see kvik run --help"),
    (("run", FABLE, "x", "--device", "cpu:1"), "run: --device: unknown device 'cpu:1'; expected auto, cpu, cuda or cuda:N; see kvik run --help"),
    (("bench", FABLE, "--rounds", "0"), "bench: --rounds: 0 is out of range; 1 to 1000 was expected; see kvik bench --help"),
    ((), "a command was expected; kvik --help lists commands and options"),
    (("run", FABLE, "x", "--weights", "q5"), "run: --weights: unknown value 'q5'; expected auto, f32, f16, q8, q4; see kvik run --help"),
    (("run", FABLE, "x", "--backend", "1"), "run: --backend: unknown value '1'; expected auto, native, ort, reference; see kvik run --help"),
    (("run", FABLE, "x", "--early-stopping", "maybe"), "run: --early-stopping: unknown value 'maybe'; expected false, true, never; see kvik run --help"),
    (("run", FABLE, "x", "--isa", "sse"), "run: --isa: unknown value 'sse'; expected auto, scalar, avx2, avx512, amx, neon; see kvik run --help"),
    (("run", FABLE, "x", "--log-level", "loud"), "run: --log-level: unknown value 'loud'; expected debug, info, warning, error; see kvik run --help"),
    (("run", FABLE, "x", "--top-k", "1e3"), "run: --top-k: '1e3' is not a whole number; see kvik run --help"),
    (("run", FABLE, "x", "--threads", "0.5"), "run: --threads: '0.5' is not a whole number; see kvik run --help"),
    (("run", FABLE, "x", "-n", "99999999999"), "run: --max-tokens: 99999999999 is out of range; see kvik run --help"),
    (("run", FABLE, "x", "--top-p", "half"), "run: --top-p: 'half' is not a number; see kvik run --help"),
    (("run", FABLE, "x", "--seed", "-1"), "run: --seed: '-1' is not a whole number, 0 or more; see kvik run --help"),
    (("run", FABLE, "x", "--seed", "9" * 30), f"run: --seed: {'9' * 30} is out of range; see kvik run --help"),
    (("run", FABLE, "x", "--kv-bytes", "-1"), "run: --kv-bytes: '-1' is not a size; a number of bytes was expected, such as 500MB or 2GB; see kvik run --help"),
    (("run", FABLE, "x", "--kv-bytes", "1XB"), "run: --kv-bytes: '1XB' is not a size; a number of bytes was expected, such as 500MB or 2GB; see kvik run --help"),
    (("run", FABLE, "x", "-n", "2", "-n", "3"), "run: --max-tokens was given 2 times; once was expected; see kvik run --help"),
    (("run", FABLE, "x", "-n"), "run: --max-tokens needs a value; see kvik run --help"),
    (("run", FABLE, "--", "-x", "-n"), "run: unexpected argument '-n'; see kvik run --help"),
    (("score", FABLE, "--ids", "1,2", "--text", "a"), "score: --text excludes --ids; see kvik score --help"),
    (("completion", "csh"), "completion: SHELL: unknown value 'csh'; expected bash, zsh, fish; see kvik completion --help"),
])
def test_wrong_usage_is_one_sentence(arguments, sentence):
    assert refusal(*arguments, status=2) == f"kvik: {sentence}\n"


@pytest.mark.parametrize("arguments", [("run", FABLE, "x", "-n", "1" * 400), ("bench", FABLE, "--depth", "x"), ("translate", "en-zh", "x", "--batch", "-3")])
def test_no_sentence_about_a_number_is_longer_than_the_number_and_a_line(arguments):
    assert len(refusal(*arguments, status=2)) < len(arguments[-1]) + 160


@pytest.mark.parametrize("value,backend", [("NATIVE", "native"), ("reference", "reference")])
def test_words_of_options_may_be_in_upper_case(value, backend):
    assert json.loads(succeed("run", FABLE, "x", "-n", "1", "--backend", value, "--json"))["backend"] == backend


@pytest.mark.parametrize("number", ["8", "0x8"])
def test_numbers_may_be_decimal_or_hexadecimal(number):
    assert len(json.loads(succeed("run", FABLE, "x", "-n", number, "--ignore-eos", "--seed", number, "--json"))["ids"]) == 8


def test_a_model_with_an_empty_name_is_one_sentence():
    assert "the name of the model is empty" in refusal("run", "", "x")


def test_an_empty_text_is_scored_and_standard_input_is_not_read():
    assert "at least 2" in refusal("score", FABLE, "--text", "", text="Once upon a time")


def test_a_prompt_beside_ids_is_ignored_with_a_warning():
    done = kvik("run", FABLE, "x", "--ids", "5,6", "-n", "1", "--json")
    assert json.loads(done.stdout)["prompt_ids"] == [5, 6] and "PROMPT is ignored" in done.stderr


def test_inspect_prints_the_plan_as_one_json_object_if_both_are_requested():
    stages = json.loads(succeed("inspect", FORMS / "plain", "--plan", "--json"))["plan"]["stages"]
    assert any("matmul" in line for line in stages[0]["lines"])


def test_help_columns_are_aligned_and_show_no_internals():
    for command in ("run", "transcribe", "models", "tokenize", "render"):
        text = succeed(command, "--help")
        assert not re.search(r"Excludes|REQUIRED|\(\dx\)|TEXT TEXT|INT|FLOAT", text), command
        descriptions = [re.match(r"  (-\S+(?: \S+)?) {2,}(\S)", line) for line in text.splitlines()]
        assert {match.start(2) for match in descriptions if match and len(match[1]) < 26} == {30}, command


def test_help_describes_the_options():
    text = re.sub(r"\s+", " ", succeed("run", "--help"))
    assert "Backend to use" in text and "Device to run on" in text
    assert "f16 with q8 and q4 weights or if the file keeps its cache in 16 bits, else f32" in text
    assert "130 interrupted by Ctrl-C" in re.sub(r"\s+", " ", succeed("--help"))


def test_a_cache_is_kept_in_16_bits_if_weights_are_quantized_or_the_file_does_and_else_in_32():
    def bytes_per_token(model, *options):
        return json.loads(succeed("inspect", model, "--json", *options))["plan"]["stages"][0]["kv_bytes_per_token"]

    assert bytes_per_token(FORMS / "plain") == bytes_per_token(FORMS / "plain", "--kv", "f32")
    for weights in ("q8", "q4"):
        assert bytes_per_token(FORMS / "plain", "--weights", weights) == bytes_per_token(FORMS / "plain", "--kv", "f16")
    assert bytes_per_token(FORMS / "half-cache") == bytes_per_token(FORMS / "half-cache", "--kv", "f16")


def test_cuda_that_is_not_there_falls_back_to_the_native_backend_on_the_cpu():
    done = kvik("run", FABLE, "The king", "-n", 2, "--device", "cuda", "--json", "--weights", "q8")
    answer = json.loads(done.stdout)
    assert answer["backend"] == "native" and answer["device"] == "cpu"
    assert "falling back to the CPU" in done.stderr and "native backend" not in done.stderr


@pytest.mark.parametrize("device", ["cuda", "cuda:7"])
def test_kernels_that_are_not_there_are_one_sentence_and_the_cpu(device, tmp_path):
    done = kvik("run", FABLE, "The king", "-n", 2, "--backend", "native", "--device", device, "--json", "--cuda-lib", tmp_path / "no-kernels.so")
    assert json.loads(done.stdout)["device"] == "cpu"
    assert done.stderr.count("not run on CUDA: ") == 1 and done.stderr.count("falling back to the CPU") == 1


def test_device_auto_uses_the_cpu_without_a_warning_if_there_is_no_gpu(tmp_path):
    nowhere = {"KVIK_CUDA_LIB": str(tmp_path / "no-kernels.so")}
    done = kvik("run", FABLE, "The king", "-n", 2, "--device", "auto", "--json", environment=nowhere)
    assert json.loads(done.stdout)["device"] == "cpu" and "warning" not in done.stderr


def test_inspect_counts_what_a_gpu_leaves_to_the_cpu():
    def host_steps(model, *options):
        return json.loads(succeed("inspect", model, "--json", *options))["plan"]["stages"][0]["host_steps"]
    assert host_steps(FORMS / "plain", "--device", "cuda") == {}
    assert set(host_steps(FORMS / "quantized-attention", "--device", "cuda")) == {"append", "attend"}
    assert host_steps(FORMS / "quantized-attention") == {}


def test_bench_prints_from_cache_for_weights_that_fit_the_cache():
    table = succeed("bench", FORMS / "plain", "--prompt", 4, "--tokens", 2, "--rounds", 1)
    decode = next(line for line in table.splitlines() if line.startswith("decode at depth 4"))
    assert decode.endswith("from cache") and "%" not in decode
