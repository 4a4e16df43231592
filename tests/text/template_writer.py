"""Writes random templates and expressions: most are valid, some fail, and both implementations must agree on which."""

import random

TEXTS = ["", "a", "Hello, World", "  two  spaces ", "äöü ß", "日本語 text", "a,b,,c", "<b>&'\"", "line\nbreak\n\n", "\tTab\u00a0nbsp\u3000", "%s and %d",
         "{} {0} {name}", "ǅ İstanbul ΟΔΟΣ", "😀👍🏽", "12", "-3.5", "0x1F", "x" * 12, "</think> rest", "\u2028sep", "it's", "Title Case here", "ALL CAPS", "z_9"]
NUMBERS = ["0", "1", "-1", "2", "3", "7", "10", "255", "1.5", "-0.0", "2.0", "1e16", "1e-7", "0.1", "123456789012345678901234567890", "1_000"]
NAMES = ["s", "t", "n", "f", "l", "m", "d", "b", "nothing", "missing", "messages", "big", "pairs", "names"]
KEYS = ["role", "content", "a", "b", "items", "tool_calls", "missing", "nested"]

VARIABLES = {
    "s": "Hello World",
    "t": "  padded\ttext é \n",
    "n": 5,
    "f": 2.5,
    "l": [3, 1, 2, 3],
    "m": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": "x", "items": [1, 2], "nested": {"a": None, "b": [True, {"k": 1.0}]}},
    "b": True,
    "nothing": None,
    "big": 98765432109876543210,
    "pairs": [["a", 1], ["b", 2]],
    "names": [{"name": "Zoë", "age": 3}, {"name": "adam", "age": 30}, {"name": "Adam", "age": 3}],
    "messages": [
        {"role": "system", "content": "Be <brief>."},
        {"role": "user", "content": "Hi 'there' \"you\"\n"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [0.5, "é"]}}}]},
        {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]},
    ],
}

FILTERS = [
    "trim", "upper", "lower", "title", "capitalize", "length", "count", "first", "last", "list", "reverse", "reverse|list", "sort", "sort(reverse=true)",
    "unique|list", "default('dflt')", "default('dflt', true)", "d(none)", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)",
    "items|list", "dictsort", "dictsort(by='value')", "int", "int(7)", "int(base=16)", "float", "string", "abs", "round", "round(1)", "round(-1)",
    "round(1, 'floor')", "round(0, 'ceil')", "sum", "min", "max", "indent", "indent(2, true)",
    "indent('> ', blank=true)", "safe", "escape", "e", "replace('a', 'b')", "replace('', '-')", "replace('l', 'L', 1)", "join", "join(', ')",
    "join('|', attribute='name')", "map('upper')|list", "map(attribute='role')|list", "map(attribute='x', default='-')|join(',')", "select('string')|list",
    "select|list", "reject('none')|list", "selectattr('role', 'equalto', 'user')|list|length", "rejectattr('content')|list", "selectattr('content', 'string')|map(attribute='content')|join",
    "format(1, 2)", "format('x')",
    "attr('upper')", "attr('a')", "trim('h')", "sort(attribute='age,name')|map(attribute='name')|list", "max(attribute='age')", "sum(attribute='age')",
    "groupby('role')|list", "groupby('age', default=0)|map('first')|list", "groupby('name', case_sensitive=true)|map(attribute='list')|list",
    "batch(2)|list", "batch(3, '-')|list", "slice(2)|list", "slice(3, 0)|list", "groupby('content')",
    "sort(case_sensitive=true)", "map('length')|list", "tojson|length", "string|length", "list|tojson",
]
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable", "callable", "odd", "even",
    "divisibleby 3", "divisibleby(2)", "upper", "lower", "eq 5", "ne(5)", "gt 3", "lt('x')", "ge 2", "le 2.5", "in [1, 2, 'a']", "in 'Hello'", "sameas none", "sameas true",
    "equalto 'user'",
]
METHODS = [
    "strip()", "strip('H ')", "lstrip()", "rstrip('d\\n')", "split()", "split('o')", "split('l', 1)", "split(',')", "rsplit('l', 1)", "rsplit(None, 1)", "splitlines()", "startswith('H')",
    "startswith(('x', 'H'))", "endswith('d')", "replace('o', '0')", "replace('l', '', 1)", "find('o')", "rfind('o')", "find('zz')", "index('e')", "count('l')", "upper()", "lower()", "title()",
    "capitalize()", "join(['a', 'b'])", "join(m)", "format(1, name='n')", "items()", "items()|list", "keys()|list", "values()|list", "get('a')", "get('zz', 0)",
    "get('content')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()",
    "partition('o')", "rpartition('l')", "removeprefix('He')", "removesuffix('ld')", "append(1)", "pop()", "update({})", "index(1)", "count(3)", "copy()", "keys()",
    "values()", "__class__", "zzz()", "find('l', 3, 5)", "startswith('l', 2)",
]


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_of(self, choices):
        return self.random.choice(choices)

    # ---- expressions

    def literal(self, depth):
        kind = self.random.randrange(9)
        if kind < 3:
            return quoted(self.one_of(TEXTS))
        if kind < 5:
            return self.one_of(NUMBERS)
        if kind == 5:
            return self.one_of(["true", "false", "none", "True", "None"])
        items = [self.expression(depth - 1) for _ in range(self.random.randrange(4))]
        if kind == 6:
            return "[" + ", ".join(items) + "]"
        if kind == 7:
            return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
        return "{" + ", ".join(f"{self.one_of([quoted(self.one_of(KEYS)), self.one_of(NUMBERS)])}: {item}" for item in items) + "}"

    def slice(self):
        part = lambda: self.one_of(["", "", "0", "1", "-1", "2", "-3", "n", "100"])
        return f"[{part()}:{part()}" + self.one_of(["", "", ":-1", ":2", ":-2", ":"]) + "]"

    def expression(self, depth=3):
        if depth <= 0:
            return self.one_of(NAMES) if self.random.random() < 0.6 else self.literal(0)
        e = lambda: self.expression(depth - 1)
        kind = self.random.randrange(26) - 2
        if kind < 4:
            return self.one_of(NAMES)
        if kind < 6:
            return self.literal(depth)
        if kind < 10:
            return f"{self.operand(depth)}|{self.one_of(FILTERS)}"
        if kind < 13:
            return f"{self.operand(depth)}.{self.one_of(METHODS)}"
        if kind == 13:
            return f"{self.operand(depth)} is {self.one_of(['', 'not '])}{self.one_of(TESTS)}"
        if kind == 14:
            return self.one_of([*NAMES, "messages[1].content", "(s ~ t)", "(l + m)", "d.items()|list", "t.split()"]) + self.slice()
        if kind == 15:
            return f"{self.operand(depth)}[{self.one_of(['0', '1', '-1', '9', quoted(self.one_of(KEYS)), e()])}]"
        if kind == 16:
            return f"{self.operand(depth)}.{self.one_of(KEYS)}"
        if kind < 20:
            return f"({e()} {self.one_of(['+', '-', '*', '/', '//', '%', '~', '~', '+'])} {e()})"
        if kind == 20:
            return f"({e()} {self.one_of(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {e()})"
        if kind == 21:
            return f"({e()} {self.one_of(['and', 'or'])} {e()})"
        if kind == 22:
            return f"({e()} if {e()}{self.one_of([' else ' + e(), ''])})"
        return self.one_of([f"not {e()}", f"-{self.operand(depth)}", f"range({self.one_of(['3', 'n', '1, 4', '5, 0, -2'])})|list", f"dict(a={e()})", f"({self.one_of(NAMES)} ** {self.one_of(['0', '2', '-1', '0.5', '3'])})", f"{e()} is {self.one_of(TESTS)}"])

    def operand(self, depth):
        inner = self.expression(depth - 1)
        return inner if inner.isidentifier() else f"({inner})"

    # ---- statements

    def text(self):
        return self.one_of(["", " ", "x", "\n", "  \n  ", "text ", "\n\n", "  ", "\t", "{ %", "a\n    ", "\r\n", "é\u00a0"])

    def tag(self, inside):
        return "{%" + self.one_of(["", "", "-", "+"]) + " " + inside + " " + self.one_of(["", "", "-", "+"]) + "%}"

    def output(self, depth):
        return "{{" + self.one_of(["", "", "-"]) + " " + self.expression(depth) + " " + self.one_of(["", "", "-"]) + "}}"

    def body(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.random.randrange(1, 4))) + self.text()

    def statement(self, depth=2):
        kind = self.random.randrange(16) if depth > 0 else self.random.randrange(5)
        b = lambda: self.body(depth - 1)
        if kind < 3:
            return self.output(2)
        if kind == 3:
            return self.one_of(["{# note #}", "{#- note -#}", "{#+ x +#}\n", "{# a\nb #}\n"])
        if kind == 4:
            return self.tag(f"set {self.one_of(['x', 'y', 's', 'n'])} = {self.expression(2)}") + self.one_of(["{{ x }}", "{{ y }}", "{{ s }}", ""])
        if kind < 8:
            middle = self.tag(f"elif {self.expression(1)}") + b() if self.random.random() < 0.3 else ""
            last = self.tag("else") + b() if self.random.random() < 0.5 else ""
            return self.tag(f"if {self.expression(2)}") + b() + middle + last + self.tag("endif")
        if kind < 12:
            return self.loop(depth)
        if kind == 12:
            inside = self.tag("set " + self.one_of(["x", "y", "ns.z"]) + self.one_of(["", " | upper", " | trim | replace('a', x)"])) + b() + self.tag("endset")
            return "{% set ns = namespace(z=1, w='w') %}" + inside + "{{ x }}{{ ns.z }}{{ ns.w }}{{ ns.q }}"
        if kind == 13:
            name = self.one_of(["mac", "mak"])
            define = self.tag(f"macro {name}(p, q={self.expression(1)})") + "{{ p }}{{ q }}" + b() + self.one_of(["", "{{ caller() if caller }}", "{{ varargs }}", "{{ kwargs }}"]) + self.tag("endmacro")
            call = self.one_of([f"{{{{ {name}({self.expression(1)}) }}}}", f"{{{{ {name}(q=1, p=2) }}}}", f"{{% call {name}(1, z=2) %}}C{{{{ x }}}}{{% endcall %}}", f"{{{{ {name}(1, 2, 3) }}}}", f"{{{{ {name}() }}}}"])
            return define + call
        if kind == 14:
            return self.one_of([
                self.tag("raw") + "{{ raw }} {% x %}" + self.tag("endraw"),
                self.tag("generation") + b() + self.tag("endgeneration"),
                self.tag("filter " + self.one_of(["upper", "trim", "replace('e', x)", "indent(2)"])) + b() + self.tag("endfilter"),
                self.tag(f"with x = {self.expression(1)}, z = x") + "{{ x }}{{ z }}" + b() + self.tag("endwith"),
                self.tag("if s is undefined") + "{{ raise_exception('no ' ~ s) }}" + self.tag("endif"),
            ])
        return self.output(3)

    def loop(self, depth):
        target, source = self.one_of([("x", "l"), ("x", "messages"), ("k, v", "d.items()"), ("k, v", "pairs"), ("x", "range(3)"), ("x", self.expression(2)), ("x", "m|select('lower')"), ("x", "s"), ("k", "d")])
        name = target.split(",")[0]
        test = self.one_of(["", "", "", f" if {name}", f" if {name} != 1", f" if {self.expression(1)}", " if loop is undefined"])
        about = self.one_of(["", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.length }}-{{ loop.revindex }}", "{{ loop.previtem }}|{{ loop.nextitem }}", "{{ loop.cycle('o', 'e') }}", "{{ loop.changed(" + name + ") }}", "{{ loop.index0 }}{{ loop.depth }}"])
        jump = self.one_of(["", "", "", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}", "{% set y = loop.index %}"])
        last = self.tag("else") + self.body(depth - 1) if self.random.random() < 0.25 else ""
        return self.tag(f"for {target} in {source}{test}") + about + "{{ " + name + " }}" + jump + self.body(depth - 1) + last + self.tag("endfor") + self.one_of(["", "{{ x }}", "{{ y }}"])

    def template(self):
        if self.random.random() < 0.5:
            return self.output(4)
        return self.body(2)
