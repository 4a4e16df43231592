"""kvik render beside jinja2, on random templates and on random conversations. KVIK_DIFFERENTIAL_CASES asks for more cases, KVIK_DIFFERENTIAL_SEED for others."""

import json
import os
import pathlib
import subprocess

import pytest

import conversations
import template_reference
import template_writer

CASES = int(os.environ.get("KVIK_DIFFERENTIAL_CASES", "1000"))
SEED = int(os.environ.get("KVIK_DIFFERENTIAL_SEED", "1"))
NOW = "2025-03-04T15:09:26"


def kvik_render(lines, tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text("")
    kvik = pathlib.Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"
    done = subprocess.run([kvik, "render", "--template", template], input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(lines)
    return answers


def agrees(ours, reference):
    if "text" in reference:
        return ours.get("text") == reference["text"]
    return "error" in ours and (not reference["raised"] or ours["error"] == reference["error"])


def compare(cases, tmp_path):
    """cases: (template, variables). Answers how many were compared; fails with the first few that differ."""
    known = [(case, template_reference.render(*case)) for case in cases]
    known = [(case, answer) for case, answer in known if answer is not None]
    lines = [{"messages": [], **variables, "chat_template": template, "now": NOW} for (template, variables), _ in known]
    ours = kvik_render(lines, tmp_path)
    different = [f"{case[0]!r}\n  reference {answer}\n  kvik      {our}" for (case, answer), our in zip(known, ours) if not agrees(our, answer)]
    assert not different, f"{len(different)} of {len(known)} differ:\n" + "\n".join(different[:10])
    return len(known), sum("text" in answer for _, answer in known)


def with_defaults(variables):
    return {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False, **variables}


def test_random_templates_render_as_the_reference_renders_them(tmp_path):
    variables = with_defaults(template_writer.VARIABLES)
    cases = [(template_writer.Writer(SEED * 1_000_003 + i).template(), variables) for i in range(CASES)]
    compared, rendered = compare(cases, tmp_path)
    assert rendered > compared / 3  # most of what is written means something


@pytest.mark.parametrize("style", sorted(conversations.TEMPLATES))
def test_random_conversations_render_as_the_reference_renders_them(style, tmp_path):
    cases = [(conversations.TEMPLATES[style], with_defaults(conversations.Conversation(SEED * 7919 + i).variables())) for i in range(max(CASES // 15, 20))]
    compare(cases, tmp_path)
