"""What users see: help, repr, notebooks and progress bars."""
import copy
import inspect
import pickle
import pydoc
import sys
import types

import kvik
import pytest

from command_line import FABLE


def test_help_of_the_package_describes_every_call():
    """Every public class and function, every method and property, has a docstring."""
    missing = []
    for name in kvik.__all__:
        value = getattr(kvik, name)
        if name != "__version__" and not inspect.getdoc(value):
            missing.append(name)
        if isinstance(value, type) and not issubclass(value, (Exception, str)):
            own = {each: found for each, found in vars(value).items() if not each.startswith("_") and each not in vars(dict)}
            missing += [f"{name}.{each}" for each, found in own.items() if callable(found) or isinstance(found, property) if not inspect.getdoc(found)]
    assert missing == []
    page = pydoc.render_doc(kvik.Model, renderer=pydoc.plaintext)
    for described in ("Once upon a time", "weights (str)", "max_tokens or max_new_tokens", "repetition_penalty (float)", "transcribe(self"):
        assert described in page


def test_reprs_describe_objects(fable):
    session = fable.session()
    session.append([5, 6])
    engine = kvik.Engine(fable)
    stream = engine.submit([5, 6, 7], max_tokens=2)
    stream.text()
    model = repr(fable)
    assert model.startswith(f"kvik.Model('{FABLE}', native on cpu")
    assert [repr(each) for each in (session, engine, stream, session.append_tree([5, 6], [-1, 0]))] == [
        f"kvik.Session(2 tokens of '{FABLE}')",
        f"kvik.Engine({model})",
        "kvik.Stream(3 prompt tokens, 2 new, finish='length')",
        "kvik.TreeLogits(2 nodes)",
    ]
    assert repr(kvik.Tokenizer(FABLE)) == f"kvik.Tokenizer('{FABLE}', 4096 tokens)"
    assert repr(kvik.ChatTemplate(FABLE)) == f"kvik.ChatTemplate('{FABLE}', empty)"
    assert repr(kvik.Constraint.regex("a+")) == "kvik.Constraint.regex('a+')"
    assert repr(kvik.Constraint.json_object()) == "kvik.Constraint.json_object()"
    assert repr(fable.cache_use).startswith("kvik.CacheUse(")
    assert repr(kvik.pipeline("text-generation", model=fable)) == f"kvik.pipeline('text-generation', {model})"
    assert repr(fable.generate([5, 6])) == "kvik.Generation(2 prompt tokens, 0 new, finish=None)"


def test_the_error_for_pickling_explains_what_to_do_instead(fable):
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="kvik.Model cannot be pickled or copied; .* loads it by its name"):
            make(fable)
        with pytest.raises(TypeError, match="kvik.Session cannot be pickled or copied; use fork, or save"):
            make(fable.session())
    assert pickle.loads(pickle.dumps(kvik.Tokenizer(FABLE))).encode("Once") == kvik.Tokenizer(FABLE).encode("Once")


def test_a_bench_has_a_plot_for_notebooks():
    found = kvik.bench(FABLE, "--rounds", "1", tokens=2, prompt=4, batch=[1, 2], depth=[8], threads=1, uncached=False)
    assert found._repr_html_() == found.svg and found.svg.lstrip().startswith("<svg")
    assert found.bandwidth_gb_per_s > 0 and any("decode" in result["what"] for result in found.results)
    assert "tokens/s" in repr(found)
    with pytest.raises(kvik.Error, match="no option '--tokns'") as error:
        kvik.bench(FABLE, tokns=2)
    assert error.value.code == "bad_argument"


class _Bar:
    """What is used of tqdm."""

    all = []

    def __init__(self, desc, unit, leave):
        self.desc, self.unit, self.n, self.total, self.closed = desc, unit, 0, None, False
        _Bar.all.append(self)

    def update(self, n):
        self.n += n

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


def test_progress_is_a_bar_of_tqdm_where_that_is_installed(fable, translator, monkeypatch):
    monkeypatch.setattr(_Bar, "all", [])
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=_Bar))
    text = "Once upon a time there was a king."
    fable.score(text, progress=True)
    translator.translate(["Yes.", "No."], progress=True)
    assert [(bar.desc, bar.unit, bar.n, bar.total, bar.closed) for bar in _Bar.all] == [
        ("score", "token", len(fable.tokenize(text)), len(fable.tokenize(text)), True),
        ("translate", "source", 2, 2, True),
    ]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert fable.score(text, progress=True).sum_logprob == fable.score(text).sum_logprob and len(_Bar.all) == 2
