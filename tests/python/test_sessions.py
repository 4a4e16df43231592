"""Sessions from Python: forks, trees, rewinds, files, and views of logits that outlive everything."""
import gc
import threading

import kvik
import numpy as np
import pytest

from command_line import FABLE

PROMPT = "Once upon a time"


@pytest.fixture
def session(fable):
    session = fable.session()
    session.append(fable.tokenize(PROMPT))
    return session


def test_logits_are_views_that_keep_their_numbers(fable, session):
    logits = session.logits
    assert logits.dtype == np.float32 and logits.shape == (fable.vocab_size,) and not logits.flags.writeable and not logits.flags.owndata
    assert session.logits.ctypes.data == logits.ctypes.data  # no copy
    copy = logits.copy()
    for token in (5, 6, 7, 8):
        session.append(token)
    assert not np.array_equal(session.logits, copy)
    session.reset()
    del session
    gc.collect()
    others = [fable.session() for _ in range(20)]
    for other in others:
        other.append([9, 10, 11])
        other.logits
    assert np.array_equal(logits, copy)


def test_a_fork_continues_alone_and_a_rewind_undoes(session):
    before = session.logits.copy()
    branch = session.fork()
    branch.append([50, 60])
    assert len(branch) == len(session) + 2 and np.array_equal(session.logits, before)
    session.append([50])
    session.append([60])
    assert np.array_equal(branch.logits, session.logits)
    session.rewind(4)
    assert np.array_equal(session.logits, before)


def test_a_tree_has_the_logits_of_its_paths(session):
    tree = session.append_tree([50, 60, 70], [-1, 0, -1])
    path = session.fork()
    path.append([50, 60])
    assert len(tree) == 3 and np.array_equal(tree[1], path.logits)
    session.keep(1)
    assert session.tokens.tolist() == path.tokens.tolist() and np.array_equal(session.logits, tree[1])


def test_one_step_for_many_sessions(fable, session):
    sessions = [session.fork() for _ in range(5)]
    fable.step(sessions, [10, 20, 30, 40, 50])
    alone = session.fork()
    alone.append(30)
    assert np.array_equal(sessions[2].logits, alone.logits)
    with pytest.raises(kvik.Error, match="in use|different|twice"):
        fable.step([session, session], [1, 2])
    assert len(session) == 4


@pytest.mark.parametrize("make", [list, tuple, lambda ids: np.array(ids), lambda ids: np.array(ids, np.uint16), lambda ids: np.array(ids * 2, np.int32)[: len(ids)], lambda ids: np.repeat(ids, 2)[::2]])
def test_ids_may_be_any_integers(fable, make):
    ids = fable.tokenize(PROMPT)
    session = fable.session()
    session.append(make(ids))
    assert session.tokens.tolist() == ids


@pytest.mark.parametrize("ids", ["x" * 3 and 3.5, [1.5], [None], [True], np.zeros((2, 2), int), np.zeros(3), object()])
def test_other_ids_are_a_type_error_and_change_nothing(session, ids):
    with pytest.raises(TypeError):
        session.append(ids)
    assert len(session) == 4


@pytest.mark.parametrize("ids", [[10**6], [-1], [2**40], [2**70], np.array([2**40])])
def test_ids_outside_the_vocabulary_are_an_error_and_change_nothing(session, ids):
    with pytest.raises(kvik.Error) as error:
        session.append(ids)
    assert error.value.code == "bad_argument" and len(session) == 4


def test_a_full_context_and_full_memory_have_codes(session):
    model = kvik.Model(FABLE, threads=1, context=8)
    small = model.session()
    small.append([1] * 8)
    with pytest.raises(kvik.Error) as error:
        small.append(2)
    assert error.value.code is kvik.Code.CONTEXT_FULL and len(small) == 8
    model = kvik.Model(FABLE, threads=1, kv_bytes=600_000, reuse_prefixes=False)
    held = model.session()
    held.append([1] * 32)
    with pytest.raises(kvik.Error) as error:
        model.session().append([2] * 200)
    assert error.value.code == "no_memory"


def test_a_saved_session_continues(fable, session, tmp_path):
    session.save(tmp_path / "story.kv")
    expected = session.fork().generate(max_tokens=8).text()
    assert fable.load_session(tmp_path / "story.kv").generate(max_tokens=8).text() == expected
    assert fable.load_prefix(tmp_path / "story.kv") == 4
    (tmp_path / "story.kv").write_bytes(b"nonsense")
    with pytest.raises(kvik.Error):
        fable.load_session(tmp_path / "story.kv")


def test_a_generation_continues_a_session_and_leaves_the_answer_in_it(fable):
    session = fable.session()
    text = session.generate(PROMPT, max_tokens=6).text()
    assert fable.detokenize(session.tokens).startswith(PROMPT + text[:10])
    generation = session.generate(max_tokens=4)
    next(generation)
    session.append(5)
    with pytest.raises(kvik.Error, match="changed"):
        next(generation)
    asked = session.generate(" and", max_tokens=2)
    assert asked.metrics.reused_tokens > 0 if asked.text() else True


def test_two_threads_on_one_session_is_an_error_and_no_crash(fable):
    session = fable.session()
    failures, stop = [], threading.Event()

    def use():
        while not stop.is_set():
            try:
                session.append(7)
                session.rewind(0)
            except kvik.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(failures) < 20:
        stop.wait(0.001)
    stop.set()
    for thread in threads:
        thread.join()
    assert all("one thread at a time" in str(error) for error in failures)
    session.reset()
    session.append(7)


def test_sampling_options_are_checked(session):
    assert session.sample() == int(session.logits.argmax())
    with pytest.raises(TypeError, match="temperature is 'hot'; expected a number"):
        session.sample(temperature="hot")
    with pytest.raises(TypeError, match="unexpected keyword argument 'heat'"):
        session.sample(heat=1)
    with pytest.raises(kvik.Error, match="temperature is -1"):
        session.sample(temperature=-1)


def test_what_is_no_session_or_model_is_a_type_error(fable, session):
    with pytest.raises(TypeError, match="session must be a kvik.Session, not int"):
        fable.generate("The king", session=5)
    with pytest.raises(TypeError, match="a session must be a kvik.Session, not NoneType"):
        fable.step([session, None], [1, 2])
    with pytest.raises(TypeError, match="model must be a kvik.Model, not str"):
        kvik.Engine("fable")
