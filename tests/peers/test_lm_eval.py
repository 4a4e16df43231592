"""`lm_eval --model kvik` on tasks that are given as local files."""
import json
import pathlib
import subprocess
import sys

import kvik
import pytest

TASK = """
task: wolves
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
"""
DOCUMENTS = [
    {"text": "Once upon a", "choices": ["time", "wheel", "seven"], "answer": 0},
    {"text": "There was once a king who had a", "choices": ["the the", "daughter"], "answer": 1},
    {"text": "The fox ran into the", "choices": ["wood", "was said"], "answer": 0},
    {"text": "and they lived happily ever", "choices": ["blue", "after"], "answer": 1},
]
GENERATED = """
task: stories
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: ""
generation_kwargs:
  until: ["."]
  max_gen_toks: 12
  do_sample: false
metric_list:
  - metric: exact_match
"""


@pytest.fixture
def tasks(tmp_path):
    data = tmp_path / "data.json"
    data.write_text("\n".join(map(json.dumps, DOCUMENTS)))
    (tmp_path / "wolves.yaml").write_text(TASK.format(data=data))
    (tmp_path / "stories.yaml").write_text(GENERATED.format(data=data))
    return tmp_path


def lm_eval(tasks, name, *arguments):
    program = pathlib.Path(sys.executable).parent / "lm_eval"
    out = tasks / "out"
    command = [program, "--model", "kvik", "--model_args", "pretrained=fable,threads=1", "--tasks", name, "--include_path", tasks, "--output_path", out, "--log_samples"]
    done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    [samples] = out.rglob(f"samples_{name}_*.jsonl")
    [results] = out.rglob("results_*.json")
    return json.loads(results.read_text()), [json.loads(line) for line in samples.read_text().splitlines()]


def test_log_likelihoods_are_those_of_score(tasks):
    results, samples = lm_eval(tasks, "wolves")
    assert results["results"]["wolves"]["acc,none"] == 1.0
    model = kvik.Model("fable", threads=1)
    for document, sample in zip(DOCUMENTS, sorted(samples, key=lambda sample: sample["doc_id"])):
        for choice, [[logprob, _greedy]] in zip(document["choices"], sample["resps"]):
            whole, context = model.tokenize(document["text"] + " " + choice), model.tokenize(document["text"])
            assert float(logprob) == pytest.approx(model.score(whole).logprobs[len(context) - 1 :].sum(), abs=1e-4)


def test_generations_are_those_of_the_package(tasks):
    _, samples = lm_eval(tasks, "stories")
    model = kvik.Model("fable", threads=1)
    for sample in samples:
        expected = model.generate(sample["doc"]["text"], max_tokens=12, stop=".", do_sample=False).text()
        assert sample["resps"] == [[expected]]
