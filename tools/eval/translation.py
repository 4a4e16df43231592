"""chrF2 and BLEU on the held-out lines of the embedded translator, and whether its ids equal those of the reference, line by line."""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys

import sacrebleu

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPECTED = ROOT / "tests" / "fixtures" / "models-expected" / "en-zh"
CARD = {1: 34.5, 4: 35.8}  # chrF2 by beams


def translate(lines: list[str], options: argparse.Namespace, beams: int) -> list[dict]:
    command = ["build/kvik", "translate", "models/en-zh", "--json", "--quiet", "--backend", options.backend, "--weights", options.weights, "--batch", options.batch, "--beams", beams, "-n", 64]
    done = subprocess.run([str(word) for word in command], input="".join(line + "\n" for line in lines), capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["results"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="ort")
    parser.add_argument("--weights", default="auto", help="of the native backend; in fewer bits the ids may differ, and chrF2 by 0.5")
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    if "KVIK_ORT_LIB" not in os.environ:
        libraries = glob.glob(str(ROOT / ".dev" / "*" / "lib" / "python3*" / "site-packages" / "onnxruntime" / "capi" / "libonnxruntime.so.*"))
        if libraries:
            os.environ["KVIK_ORT_LIB"] = libraries[0]
    pairs = [line.split("\t") for line in (EXPECTED / "heldout.tsv").read_text().splitlines()]
    cases = [json.loads(line) for line in (EXPECTED / "expected.jsonl").read_text().splitlines()]
    fine = True
    for beams, card in CARD.items():
        results = translate([source for source, _ in pairs], options, beams)
        key = "greedy_ids" if beams == 1 else "beam4_ids"
        equal = sum(result["ids"] == case[key] and result["source_ids"] == case["source_ids"] for result, case in zip(results, cases))
        texts, references = [result["text"] for result in results], [[reference for _, reference in pairs]]
        chrf = sacrebleu.corpus_chrf(texts, references).score
        bleu = sacrebleu.corpus_bleu(texts, references, tokenize="zh").score
        print(f"{options.backend}, weights {options.weights}, batch {options.batch}, {'greedy' if beams == 1 else f'{beams} beams'}: ids equal {equal}/{len(cases)}, chrF2 {chrf:.1f} (card {card}), BLEU (zh) {bleu:.1f}", flush=True)
        fewer_bits = options.weights in ("q8", "q4")
        fine = fine and (equal == len(cases) or fewer_bits) and abs(chrf - card) < (0.5 if fewer_bits else 0.05)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
