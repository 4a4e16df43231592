"""Writes docs/benchmarks.md, docs/benchmarks/*.svg, and the table and the ranges in the README from measured results. Ratios are taken within one run; nothing else is compared."""
import json
import pathlib
import re
import sys

import charts

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {"0.5b": "0.5B", "1.5b": "1.5B", "15m": "15M", "small": "small", "narrow": "narrow", "en-zh": "`en-zh`"}
INTRODUCTION = """# Benchmarks

`bench/peers/run --json FILE`, `bench/serve/compare --json FILE` and `bench/peers/report FILE…` write this page; nothing on it is typed by hand. Contenders alternate in one
run and load once; the figures are medians of {rounds} rounds. Weights are random and have the real shapes:

| shape | layers | width | heads (KV) | feed-forward | vocabulary |
|---|---|---|---|---|---|
{shapes}

A step ends with all logits, of which nothing is sampled. On a GPU and with f32 weights, a step of Kvik ends with the likeliest token instead, which the next one continues with: some logits
are then not computed or not read, so it may read less than the table says. A peer is compared at the same number of bits per weight, in its own format (llama.cpp: q8_0 and q4_0, with the embedding in q4_0 or q8_0; ONNX Runtime and
onnxruntime-genai: MatMulNBits in blocks of 32) and at the number of threads at which it is fastest. The table shows the best of them. *Reads* is what Kvik reads from memory for its tokens, and the
share of the read bandwidth that was measured in the same run; weights that fit into the processor's caches can be read faster than memory.
"""


def shape_rows() -> str:
    from models.shapes import SHAPES as shapes
    return "\n".join(f"| {SHAPES[shape.name]} | {shape.layers} | {shape.width} | {shape.heads} ({shape.kv_heads}) | {shape.inner} | {shape.vocab:,} |" for shape in shapes.values())


def title(result: dict) -> str:
    shape, form = SHAPES[result["shape"]], result["format"]
    if result["kind"] == "prefill":
        return f"{shape} {form}, prompt of {result['depth']:,} tokens"
    if result["kind"] == "translate":
        return f"{shape} {form}, batch {result['sequences']}, {'greedy' if result['beams'] == 1 else str(result['beams']) + ' beams'}"
    if result["sequences"] > 1:
        return f"{shape} {form}, {result['sequences']} sequences together"
    return f"{shape} {form}, decode" + (f" at {result['depth']:,} tokens" if result["depth"] > 1000 else "")


def pairs(results: list[dict]) -> dict[str, tuple[dict, dict, dict | None]]:
    """Per work: the run in which Kvik's ratio is lowest, Kvik's figure, and the best peer's of the same run."""
    found: dict[str, tuple] = {}
    for result in results:
        kvik = next((one for one in result["contenders"] if one["name"] == "Kvik"), None)
        if kvik is None or "rate" not in kvik:
            continue
        peers = [one for one in result["contenders"] if not one["name"].startswith("Kvik")]
        best = max(peers, key=lambda one: one["rate"], default=None)
        known = found.get(result["work"])
        if known is None or known[2] is None or (best and best["rate"] / kvik["rate"] > known[2]["rate"] / known[1]["rate"]):
            found[result["work"]] = (result, kvik, best)
    return found


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def row(result: dict, kvik: dict, peer: dict | None, machine: dict) -> str:
    reads = ""
    if "gb_per_s" in kvik:
        share = kvik["share_of_bandwidth"]
        reads = f"{kvik['gb_per_s']:.1f} GB/s, " + (f"{share:.0%}" if share <= 1.05 else "from cache")
    threads = "" if not peer or "gpu" in machine else f", {count(peer['threads'], 'thread')}"
    other = f"{number(peer['rate'])} ({peer['name']} {peer['format']}{threads})" if peer else ""
    ratio = f"**{kvik['rate'] / peer['rate']:.2f}**" if peer else ""
    return f"| {title(result)} | {number(kvik['rate'])} | {other} | {ratio} | {reads} |"


def bandwidths(results: list[dict]) -> str:
    values = sorted(result["bandwidth_gb_per_s"] for result in results if "bandwidth_gb_per_s" in result)
    ends = sorted({f"{value:.0f}" for value in (values[0], values[-1])}, key=float) if values else []
    return f" Memory reads {' to '.join(ends)} GB/s in these runs." if ends else ""


def tables(name: str, reports: list[dict], folder: pathlib.Path, old: str) -> list[str]:
    results = [result for report in reports for result in report.get("results", [])]
    found = pairs(results)
    lines = []
    versions = {key: value for report in reports for key, value in report["versions"].items()}
    lines += ["Versions: " + ", ".join(f"{peer} {version}" for peer, version in versions.items()) + "." + bandwidths(results), ""]
    if found:
        chart = folder / f"{name}.svg"
        chart.write_text(charts.ratios([(title(result), kvik["rate"] / peer["rate"], f"{peer['name']} {peer['format']}") for result, kvik, peer in found.values() if peer]))
        lines += [f"![How many times as fast as the best peer]({folder.name}/{chart.name})", "", "| work | Kvik, per second | best peer | times as fast | reads |", "|---|---|---|---|---|"]
        lines += [row(*one, reports[0]["machine"]) for one in found.values()] + [""]
    for result in results:
        kvik = next((one for one in result["contenders"] if one["name"] == "Kvik"), None)
        if result["kind"] == "uncached" and kvik:
            lines += [f"With the cache, {result['steps']} tokens after a prompt of {result['depth']} take {kvik['ms']:.2f} ms ({SHAPES[result['shape']]} shape); if each step really computes "
                      f"everything before it, {kvik['uncached_ms']:.2f} ms: {kvik['ratio']:.1f} times as long.", ""]
    return lines + (serving(reports) or kept_serving(old))


SERVERS = "Servers, in milliseconds. Users send a prompt, read the answer and send the next; no prompts share a prefix."


def serving(reports: list[dict]) -> list[str]:
    cases = [case for report in reports for case in report.get("serving", [])]
    if not cases:
        return []
    lines = [SERVERS, "",
             "| load | server | tokens/s | first token p50 / p95 | between tokens p50 / p95 |", "|---|---|---|---|---|"]
    for case in cases:
        load = f"{SHAPES[case['shape']]} {case['weights']}, "
        load += f"{case['long_prompt']:,} tokens arrive while {case['users']} users read" if "long_prompt" in case else f"{count(case['users'], 'user')}, {case['prompt']} + {case['tokens']} tokens"
        for server, one in case["servers"].items():
            rate = number(one["tokens_per_s"]) if "tokens_per_s" in one else ""
            first = one["first_token_ms"]
            first = f"{number(first['p50'])} / {number(first['p95'])}" if isinstance(first, dict) else f"{number(first)} (of the long prompt)"
            between = one["between_tokens_ms"]
            lines.append(f"| {load} | `{server}` | {rate} | {first} | {between['p50']:.1f} / {between['p95']:.1f} |")
    return [*lines, ""]


def kept_serving(old: str) -> list[str]:
    """The servers of an earlier run on the same machine, with its date."""
    if SERVERS not in old:
        return []
    date, table = old.split("\n")[0].rsplit(", ", 1)[1], old.split(SERVERS)[1].strip("\n")
    return [f"{SERVERS}{table}" if table.startswith(" On ") else f"{SERVERS} On {date}.\n\n{table}"]


SUMMARY = ("decode/0.5b/q8/depth-64", "decode/0.5b/q4/depth-64", "prefill/0.5b/q8/512", "decode/0.5b/q8/depth-4096", "decode/0.5b/q8/depth-128/16-sequences", "decode/15m/q4/depth-64",
           "decode/small/f32/depth-64", "translate/q8/batch-1/beams-4", "translate/q8/batch-16/beams-1")
BEGIN, END = "<!-- speed: bench/peers/report writes what is between these lines -->\n", "<!-- end of speed -->\n"
RANGES_BEGIN, RANGES_END = "<!-- ranges -->", "<!-- end of ranges -->"
RANGES = {"one sequence": ", decode", "many sequences": "sequences together", "prompts": ", prompt of", "translation": "`en-zh`"}  # by a part of the row's title


def place(threads: int, machine: dict) -> str:
    """For the README: what distinguishes the machines."""
    return ", ".join([f"{threads} threads", machine.get("core") or machine["instruction_sets"][-1]])


def summary(machines: dict[tuple, list[dict]], old: str) -> str:
    """The main works on each machine; rows of machines that are not in the files stay."""
    lines = ["Tokens (`en-zh`: sentences) per second, medians of a run in which the programs alternated, each at its best setting. `docs/benchmarks.md` has all works, machines and",
             "settings; `bench/peers/run` repeats them on yours.", "", "| | Kvik | best peer at as many bits | times as fast |", "|---|---|---|---|"]
    measured = set()
    for (processor, threads), reports in machines.items():
        found = pairs([result for report in reports for result in report.get("results", [])])
        where = place(threads, reports[0]["machine"])
        measured.add(where)
        lines += [f"| {title(result)}; {where} | {number(kvik['rate'])} | {number(peer['rate'])} ({peer['name']} {peer['format']}) | {kvik['rate'] / peer['rate']:.2f} |"
                  for result, kvik, peer in (found[work] for work in SUMMARY if work in found) if peer]
    lines += [line for line in old.splitlines() if "; " in line and line.split("; ")[1].split(" |")[0] not in measured and line.startswith("| ")]
    return "\n".join(lines) + "\n"


def ranges(page: str) -> str:
    """How many times as fast as the best peer, from the lowest to the highest ratio of any machine without a GPU."""
    cpus = "".join(part for part in page.split("\n## ")[1:] if not part.startswith("NVIDIA"))
    rows = re.findall(r"^\| (.+?) \|.*\*\*([\d.]+)\*\*", cpus, re.MULTILINE)
    found = {what: sorted(float(ratio) for title, ratio in rows if part in title) for what, part in RANGES.items()}
    return ", ".join(f"{what} {ratios[0]:.2f} to {ratios[-1]:.2f}" for what, ratios in found.items() if ratios)


def replace_between(text: str, begin: str, end: str, new: str) -> str:
    before, rest = text.split(begin)
    return before + begin + new + end + rest.split(end)[1]


def update_readme(machines: dict[tuple, list[dict]], page: str) -> None:
    file = ROOT / "README.md"
    text = file.read_text()
    text = replace_between(text, BEGIN, END, summary(machines, text.split(BEGIN)[1].split(END)[0]))
    file.write_text(replace_between(text, RANGES_BEGIN, RANGES_END, ranges(page)))


def sections(page: str) -> dict[str, str]:
    """The sections of the existing page, by their headings without the date."""
    return {part.split("\n")[0].rsplit(", ", 1)[0]: "## " + part.rstrip() for part in page.split("\n## ")[1:]}


def main(files: list[str]) -> None:
    if not files or files[0].startswith("-"):
        raise SystemExit("usage: bench/peers/report FILE.json…   (what bench/peers/run and bench/serve/compare wrote with --json)")
    machines: dict[tuple, list[dict]] = {}
    for file in files:
        report = json.loads(pathlib.Path(file).read_text())
        machine = report["machine"]
        machines.setdefault((machine.get("gpu", machine["processor"]), machine["threads"]), []).append(report)
    folder = ROOT / "docs" / "benchmarks"
    folder.mkdir(exist_ok=True)
    page = ROOT / "docs" / "benchmarks.md"
    parts = sections(page.read_text()) if page.exists() else {}  # of machines that are not in the files
    rounds = sorted({report["rounds"] for reports in machines.values() for report in reports if "results" in report}) or [5]
    measured = {}
    for (processor, threads), reports in machines.items():
        one = reports[0]["machine"]
        sets = f" ({', '.join(one['instruction_sets'])})" if one["instruction_sets"] else ""
        heading = processor.split(",")[0] if "gpu" in one else f"{threads} threads, {processor}{sets}"
        name = re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-")
        measured[heading] = "\n".join([f"## {heading}, {one['date']}", "", *tables(name, reports, folder, parts.get(heading, ""))]).rstrip()
    text = "\n\n".join([INTRODUCTION.format(shapes=shape_rows(), rounds=" to ".join(map(str, dict.fromkeys((rounds[0], rounds[-1]))))).rstrip(), *(measured | {k: v for k, v in parts.items() if k not in measured}).values()])
    page.write_text(text + "\n")
    for chart in folder.glob("*.svg"):
        if chart.name not in text:
            chart.unlink()
    update_readme(machines, text)
    print(f"wrote the table of README.md, docs/benchmarks.md and {len(list(folder.glob('*.svg')))} charts")


if __name__ == "__main__":
    main(sys.argv[1:])
