"""What the reference answers: PyPI's jinja2, set up as transformers sets it up for chat templates."""

import copy
import datetime
import json

import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

warnings.filterwarnings("ignore", category=SyntaxWarning)  # Python's word on templates that make no sense, and are meant to


class Raised(jinja2.TemplateError):
    """The template's own raise_exception()."""


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _render(self, context, caller):
        return caller()


def _raise_exception(message):
    raise Raised(message)


def _tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(now):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromisoformat(now).strftime(form)
    return env


def render(template, variables, now="2025-03-04T15:09:26"):
    """{"text": …}, {"error": …, "raised": bool}; None where Python answers with an address in memory."""
    try:
        # A copy: the filter `indent` of the reference adds to a list in place.
        text = environment(now).from_string(template).render(**copy.deepcopy(variables))
    except Raised as e:
        return {"error": str(e), "raised": True}
    except Exception as e:  # whatever Python says, the rendering failed
        return {"error": f"{type(e).__name__}: {e}", "raised": False}
    return None if " at 0x" in text else {"text": text}
