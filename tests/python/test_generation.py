"""Generation through Python has the tokens of the command line, however it is read."""
import asyncio
import gc
import json
import subprocess
import sys
import threading

import kvik
import numpy as np
import pytest

from command_line import FABLE, succeed

PROMPT = "Once upon a time"


def command_line(*flags):
    return json.loads(succeed("run", FABLE, PROMPT, *flags, "--json", "--threads", "1"))


OPTIONS = [
    ({"max_tokens": 30}, ["-n", "30"]),
    ({"max_new_tokens": 30, "temperature": 0.9, "top_k": 40, "seed": 7}, ["-n", "30", "--temperature", "0.9", "--top-k", "40", "--seed", "7"]),
    ({"max_tokens": 12, "num_beams": 3, "length_penalty": 0.5}, ["-n", "12", "--beams", "3", "--length-penalty", "0.5"]),
    ({"max_tokens": 40, "stop": " who", "repetition_penalty": 1.2}, ["-n", "40", "--stop", " who", "--repetition-penalty", "1.2"]),
    ({"max_tokens": 20, "logit_bias": {447: -100.0}, "bad_words_ids": [[259, 421]]}, ["-n", "20", "--logit-bias", "447:-100", "--bad-words-ids", "259,421"]),
]


@pytest.mark.parametrize("options, flags", OPTIONS)
def test_iterating_awaiting_and_the_engine_give_what_the_command_line_gives(fable, options, flags):
    expected = command_line(*flags)

    async def read():
        generation = fable.generate(PROMPT, **options)
        pieces = [piece async for piece in generation]
        return "".join(pieces), generation

    generation = fable.generate(PROMPT, **options)
    pieces = list(generation)
    assert all(pieces)
    text, awaited = asyncio.run(read())
    stream = kvik.Engine(fable).submit(PROMPT, **options)
    assert "".join(pieces) == text == stream.text() == fable.generate(PROMPT, **options).text() == expected["text"]
    assert generation.ids.tolist() == awaited.ids.tolist() == stream.ids.tolist() == expected["ids"]
    assert generation.finish == awaited.finish == stream.finish == expected["finish"]
    assert generation.prompt_ids.tolist() == expected["prompt_ids"]


def test_tasks_and_threads_that_run_together_get_what_they_get_alone(fable):
    prompts = [f"{PROMPT} there was a {animal}" for animal in ("fox", "king", "cat", "wolf", "hen", "boy", "bird", "frog")]
    options = {"max_tokens": 24, "temperature": 0.8, "seed": 3}
    alone = [fable.generate(prompt, **options).text() for prompt in prompts]

    async def together():
        return await asyncio.gather(*(fable.generate(prompt, **options) for prompt in prompts))

    assert list(asyncio.run(together())) == alone
    found = [None] * len(prompts)
    threads = [threading.Thread(target=lambda i=i: found.__setitem__(i, fable.generate(prompts[i], **options).text())) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_tasks_share_runs_of_the_model():
    """Sixteen generations in the steps of one: the engine's counters say so."""
    model = kvik.Model(FABLE, threads=1)

    async def read():
        generations = [model.generate(PROMPT, max_tokens=20, seed=i, temperature=1.0) for i in range(16)]
        async def first_of(generation):
            return await generation.__aiter__().__anext__()
        pieces = asyncio.gather(*map(first_of, generations))
        running = 0
        while not pieces.done():
            running = max(running, model._engine().load["running"])
            await asyncio.sleep(0)
        await pieces
        return running

    assert asyncio.run(read()) > 8


def test_a_cancelled_task_frees_its_place_and_disturbs_no_other(fable):
    async def run():
        endless = asyncio.create_task(_text(fable.generate(PROMPT, max_tokens=900, ignore_eos=True)))
        other = asyncio.create_task(_text(fable.generate("The fox", max_tokens=20)))
        while fable._engine().load["running"] == 0:
            await asyncio.sleep(0)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        text = await other
        while fable._engine().load["running"]:  # the cancelled generation ends within a step
            await asyncio.sleep(0)
        return text

    assert asyncio.run(run()) == fable.generate("The fox", max_tokens=20).text()


async def _text(generation):
    return await generation


def test_two_tasks_that_read_one_generation_are_an_error_and_not_a_deadlock(fable):
    async def run():
        generation = fable.generate(PROMPT, max_tokens=30)
        return await asyncio.gather(_text(generation), _text(generation), return_exceptions=True)

    results = asyncio.run(run())
    texts, errors = [each for each in results if isinstance(each, str)], [each for each in results if isinstance(each, kvik.Error)]
    assert texts == [fable.generate(PROMPT, max_tokens=30).text()] and "another task is reading" in str(errors[0])


def test_a_forked_process_generates_with_the_models_of_its_parent():
    """Threads stay in the parent: the model gets an engine of its own in the child, and other engines are an error there and not a deadlock."""
    program = f"""
import asyncio, os, signal, kvik
model = kvik.Model({str(FABLE)!r}, threads=2)
async def text():
    return await model.generate({PROMPT!r}, max_tokens=8)
expected = asyncio.run(text())
engine = kvik.Engine(model)
engine.submit({PROMPT!r}, max_tokens=8).text()
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    assert asyncio.run(text()) == model.generate({PROMPT!r}, max_tokens=8).text() == expected
    for call in (lambda: engine.submit("x"), lambda: engine.score("x")):
        try:
            call()
        except kvik.Error as error:
            assert "before the process forked" in str(error)
        else:
            raise AssertionError("no error")
else:
    assert os.waitpid(pid, 0)[1] == 0
    assert asyncio.run(text()) == expected
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr


def test_engines_of_two_event_loops_after_one_another(fable):
    first = asyncio.run(_text(fable.generate(PROMPT, max_tokens=8)))
    assert asyncio.run(_text(fable.generate(PROMPT, max_tokens=8))) == first


def test_logprobs_are_those_of_the_model(fable):
    generation = fable.generate(PROMPT, max_tokens=6, logprobs=3)
    generation.text()
    ids = generation.prompt_ids.tolist() + generation.ids.tolist()
    scored = fable.score(ids).logprobs[-6:]
    assert [token.id for token in generation.tokens] == generation.ids.tolist()
    assert np.allclose([token.logprob for token in generation.tokens], scored)
    assert all(len(token.top) == 3 and token.top[0].id == token.id for token in generation.tokens)


def test_constraints_hold(fable):
    text = fable.generate("A fox:", regex="[A-Z][a-z]{2,6} is [0-9]{2}", max_tokens=40).text()
    assert text[0].isupper() and text[-2:].isdigit()
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"], "additionalProperties": False}
    assert set(json.loads(fable.generate("JSON:", json_schema=schema, max_tokens=60).text())) == {"n"}
    assert fable.generate("x", grammar='root ::= "yes" | "no"', max_tokens=10).text() in ("yes", "no")
    constraint = kvik.Constraint.regex("(ab)+c")
    assert fable.generate("x", constraint=constraint, max_tokens=9, temperature=1.0, seed=2).text().startswith("ab")
    with pytest.raises(kvik.Error, match="one constraint"):
        fable.generate("x", regex="a", grammar="b")


def test_do_sample_is_that_of_hugging_face(fable, tmp_path):
    greedy = fable.generate(PROMPT, max_tokens=12).text()
    assert fable.generate(PROMPT, max_tokens=12, do_sample=False, temperature=0.9, seed=1).text() == greedy
    sampled = fable.generate(PROMPT, max_tokens=12, do_sample=True, seed=1).text()
    assert sampled == fable.generate(PROMPT, max_tokens=12, temperature=1.0, seed=1).text() != greedy
    for file in FABLE.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.3, "do_sample": true}')
    warm = kvik.Model(tmp_path, threads=1)
    assert warm.generate(PROMPT, max_tokens=12, do_sample=True, seed=1).text() == fable.generate(PROMPT, max_tokens=12, temperature=0.3, seed=1).text()


def test_a_deleted_model_with_living_sessions_and_generations_is_safe():
    model = kvik.Model(FABLE, threads=1)
    expected = model.generate(PROMPT, max_tokens=10).text()
    session = model.session()
    session.append(model.tokenize(PROMPT))
    generation = model.generate(PROMPT, max_tokens=10)
    first = next(generation)
    stream = kvik.Engine(model).submit(PROMPT, max_tokens=10)
    logits = session.logits
    del model
    gc.collect()
    assert first + generation.text() == expected
    assert session.generate(max_tokens=10).text() == expected
    del session, generation
    gc.collect()
    assert logits.argmax() == 447
    stream.cancel()


def test_progress_reports_the_prompt_and_its_errors_end_the_call(fable):
    model = kvik.Model(FABLE, threads=1, reuse_prefixes=False)
    ids = model.tokenize(PROMPT) * 240
    seen = []
    model.generate(ids, max_tokens=1, progress=lambda done, total: seen.append((done, total))).text()
    assert seen[-1] == (len(ids), len(ids)) and len(seen) > 1

    def fail(done, total):
        raise LookupError("enough")

    session = model.session()
    with pytest.raises(LookupError, match="enough"):
        session.append(ids, progress=fail)
    assert len(session) == 0
    session.append(ids)
    assert len(session) == len(ids)


def test_speculation_and_drafts_change_nothing(fable):
    expected = fable.generate(PROMPT, max_tokens=40).text()
    assert fable.generate(PROMPT, max_tokens=40, speculate="lookup").text() == expected
    draft = kvik.Model(FABLE, threads=1, weights="q4")
    assert fable.generate(PROMPT, max_tokens=40, draft=draft).text() == expected
