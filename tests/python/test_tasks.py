"""Translations, transcriptions, embeddings and scores as tasks of an engine: the results equal those of the model's functions, with any number of tasks and waiters."""
import asyncio
import gc
import os
import threading
import wave

import kvik
import numpy as np
import pytest

from command_line import FABLE

TEXTS = ["How are you today?", "Hello.", "Good night.", "The king had a daughter.", "We are going home."]
LONG = ["The king said that he would give half of his kingdom to whoever could find the golden bird."] * 400


@pytest.fixture
def recording(tmp_path):
    samples = (np.random.default_rng(3).standard_normal(16000) * 8000).astype(np.int16)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes(samples.tobytes())
    return tmp_path / "a.wav", samples / 32768.0


def plain(translations):
    return [(each.text, each.ids, each.score, each.finish, each.source_ids) for each in translations]


def settle(engine):
    """Until nothing runs and nothing waits."""
    while engine.load["running"] or engine.load["waiting"]:
        os.sched_yield()


def test_translations_are_those_of_the_model(translator):
    expected = translator.translate(TEXTS, beams=4)
    with kvik.Engine(translator) as engine:
        assert plain(engine.translate(TEXTS, beams=4).result()) == plain(expected)
        assert plain([engine.translate(TEXTS[0], num_beams=4, user="a", timeout=60).result()]) == plain(expected[:1])
        by_ids = engine.translate([expected[0].source_ids, np.array(expected[1].source_ids)], beams=4).result()
        assert plain(by_ids) == plain(expected[:2])
        assert engine.translate([]).result() == []
    assert plain(asyncio.run(translator.translate_async(TEXTS, beams=4))) == plain(expected)


def test_transcriptions_are_those_of_the_model(speech, recording):
    file, samples = recording
    expected = speech.transcribe(file, max_tokens=8)
    with kvik.Engine(speech) as engine:
        found = [engine.transcribe(audio, max_tokens=8).result() for audio in (file, str(file), samples)]
    found.append(asyncio.run(speech.transcribe_async(samples, 16000, max_tokens=8)))
    assert all((each.text, each.ids) == (expected.text, expected.ids) for each in found)
    assert len(expected.ids) > 1


def test_vectors_are_those_of_the_model(encoder):
    ids = [[5, 6, 7, 8], [9, 10], [11]]
    expected = encoder.embed(ids, pooling="mean")
    with kvik.Engine(encoder) as engine:
        assert np.array_equal(engine.embed(ids, pooling="mean").result(), expected)
    assert np.array_equal(asyncio.run(encoder.embed_async(ids, pooling="mean")), expected)


def test_scores_are_those_of_the_model(fable):
    text = "Once upon a time there was a king who had a daughter."
    expected = fable.score(text, window=8)
    with kvik.Engine(fable) as engine:
        assert np.array_equal(engine.score(text, window=8).result().logprobs, expected.logprobs)
        assert np.array_equal(engine.score(fable.tokenize(text), window=8).result().logprobs, expected.logprobs)
    assert asyncio.run(fable.score_async(text, window=8)).perplexity == expected.perplexity


def test_fifty_tasks_run_together_and_get_what_they_get_alone(translator):
    texts = [f"{text} {i}" for i in range(10) for text in TEXTS]
    alone = [translator.translate(text, beams=2, max_tokens=6) for text in texts]
    together = 0

    async def watch(tasks):
        nonlocal together
        while not tasks.done():
            together = max(together, translator._engine().load["running"])
            await asyncio.sleep(0)
        return await tasks

    async def run():
        return await watch(asyncio.gather(*(translator.translate_async(text, beams=2, max_tokens=6) for text in texts)))

    assert plain(asyncio.run(run())) == plain(alone)
    assert together > 8


def test_tasks_and_generations_share_an_engine(fable):
    text = "Once upon a time there was a king"

    async def run():
        return await asyncio.gather(fable.generate(text, max_tokens=20), fable.score_async(text), fable.generate("The fox", max_tokens=20), fable.score_async("The fox"))

    story, score, fox, fox_score = asyncio.run(run())
    assert (story, fox) == tuple(fable.generate(prompt, max_tokens=20).text() for prompt in (text, "The fox"))
    assert (score.sum_logprob, fox_score.sum_logprob) == (fable.score(text).sum_logprob, fable.score("The fox").sum_logprob)


def test_neither_an_event_loop_nor_another_thread_waits_for_a_task(translator):
    async def turns_of_the_loop():
        task, n_turns = asyncio.ensure_future(translator.translate_async(TEXTS, beams=4)), 0
        while not task.done():
            n_turns += 1
            await asyncio.sleep(0)
        return n_turns

    assert asyncio.run(turns_of_the_loop()) > 20
    with kvik.Engine(translator) as engine:
        thread = threading.Thread(target=engine.translate(TEXTS, beams=4).result)
        thread.start()
        n_turns = 0
        while thread.is_alive():
            n_turns += 1
    assert n_turns > 1000


def test_a_cancelled_task_frees_its_place_and_disturbs_no_other(translator):
    with kvik.Engine(translator, max_sequences=16) as engine:
        long, short = engine.translate(LONG), engine.translate(TEXTS[0])
        while engine.load["running"] == 0:
            pass
        assert not long.done
        long.cancel()
        with pytest.raises(kvik.Error, match="cancelled") as error:
            long.result()
        assert error.value.code == "cancelled" and long.done
        assert plain([short.result()]) == plain([translator.translate(TEXTS[0])])
        settle(engine)


def test_dropping_a_task_or_cancelling_who_awaits_it_cancels_it(translator):
    with kvik.Engine(translator) as engine:
        task = engine.translate(LONG)
        while engine.load["running"] == 0:
            pass
        del task
        gc.collect()
        settle(engine)

        async def cancelled():
            task = engine.translate(LONG)
            waiting = asyncio.ensure_future(awaited(task))
            await asyncio.sleep(0)  # a coroutine that has not begun to await cannot cancel the task
            while engine.load["running"] == 0:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return task

        task = asyncio.run(cancelled())
        settle(engine)
        with pytest.raises(kvik.Error, match="cancelled"):
            task.result()


def test_a_timeout_is_an_error_with_its_code(fable):
    ids = fable.tokenize("Once upon a time, there was a king ") * 3000
    with kvik.Engine(fable) as engine:
        for wait in (lambda task: task.result(), lambda task: asyncio.run(awaited(task))):
            with pytest.raises(kvik.Error, match="timeout") as error:
                wait(engine.score(ids, timeout=0.01))
            assert error.value.code == "timeout"
        assert engine.score("The fox", timeout=60).result().sum_logprob == fable.score("The fox").sum_logprob


async def awaited(task):
    return await task


def test_tasks_wait_while_the_queue_is_full(translator):
    expected = plain([translator.translate(text) for text in TEXTS])
    with kvik.Engine(translator, max_sequences=1, max_queue=1) as engine:
        tasks = [engine.translate(text) for text in TEXTS]
        assert plain([task.result() for task in reversed(tasks)]) == expected[::-1]

        async def together():
            return await asyncio.gather(*(engine.translate(text) for text in TEXTS))

        assert plain(asyncio.run(together())) == expected


def test_a_task_that_waits_for_a_place_can_be_cancelled_and_times_out(translator):
    with kvik.Engine(translator, max_sequences=1, max_queue=1) as engine:
        busy = engine.translate(LONG)
        while engine.load["running"] == 0:
            pass
        queued = engine.translate(TEXTS[0])
        cancelled, late = engine.translate(TEXTS[1]), engine.translate(TEXTS[1], timeout=0.01)
        assert not cancelled.done
        cancelled.cancel()
        for task, code in ((cancelled, "cancelled"), (late, "timeout")):
            with pytest.raises(kvik.Error) as error:
                task.result()
            assert error.value.code == code
        busy.cancel()
        assert plain([queued.result()]) == plain([translator.translate(TEXTS[0])])


def test_a_closed_engine_ends_its_tasks_and_takes_no_more(translator):
    engine = kvik.Engine(translator)
    task = engine.translate(LONG)
    engine.close()
    with pytest.raises(kvik.Error) as error:
        task.result()
    assert error.value.code == "cancelled"
    with pytest.raises(kvik.Error, match="closed"):
        engine.translate("Hello.")


def test_many_may_wait_for_one_task(translator):
    with kvik.Engine(translator) as engine:
        task = engine.translate(TEXTS, beams=4)

        async def together():
            return await asyncio.gather(awaited(task), awaited(task))

        first, second = asyncio.run(together())
        assert first is second is task.result()
        failing = engine.translate(LONG)
        failing.cancel()
        for _ in range(2):
            with pytest.raises(kvik.Error, match="cancelled"):
                failing.result()


def test_a_task_keeps_its_engine_and_model_alive(fable):
    model = kvik.Model(FABLE, threads=1)
    task = kvik.Engine(model).score("The fox ran into the wood.")
    del model
    gc.collect()
    assert task.result().sum_logprob == fable.score("The fox ran into the wood.").sum_logprob


def test_bad_arguments_are_errors_of_the_call(fable, translator, encoder):
    with kvik.Engine(translator) as engine:
        with pytest.raises(TypeError, match="unexpected keyword argument 'beems'"):
            engine.translate("Hello.", beems=4)
        with pytest.raises(kvik.Error, match="source 1 has no tokens"):
            engine.translate([[]])
        with pytest.raises(kvik.Error, match="2147483646"):
            engine.translate([[2147483646]]).result()
        with pytest.raises(kvik.Error, match="timeout must be"):
            engine.translate("Hello.", timeout=-1)
        with pytest.raises(TypeError, match="token ids"):
            engine.translate(["Hello.", [5, 6]])
        with pytest.raises(kvik.Error, match="one channel"):
            engine.transcribe(np.zeros((2, 100), np.float32))
    with kvik.Engine(fable) as engine, pytest.raises(kvik.Error) as error:
        engine.translate("Hello.")
    assert error.value.code == "bad_argument"
    with pytest.raises(kvik.Error):
        asyncio.run(encoder.score_async([5, 6, 7]))
