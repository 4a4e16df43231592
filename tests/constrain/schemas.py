"""JSON schemas for tests: written by hand and made at random."""

import random

HAND_WRITTEN = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name", "age"]},
    {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"}}, "required": ["id", "at"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", "blue", 7, None, {"deep": [1, "x"]}]}, "minItems": 1, "maxItems": 4},
    {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number", "minimum": -1.5, "maximum": 99.25}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}}, "$ref": "#/$defs/node"},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "exclusiveMinimum": 0}}, "required": ["kind", "r"]}, {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "integer", "multipleOf": 5}}, "required": ["kind", "side"]}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"a": {"maximum": 9, "minimum": -9}, "b": {"type": "boolean"}}, "required": ["b"]}]},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"},
    {"type": "string", "pattern": "[0-9]", "maxLength": 6},
    {"type": "string", "minLength": 3, "maxLength": 5},
    {"type": ["integer", "null", "boolean"]},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string", "maxLength": 3}], "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"const": 1}, {"const": "two"}], "items": False},
    {"type": "object", "patternProperties": {"^x_": {"type": "integer"}, "_y$": {"type": "integer", "minimum": 10}}, "additionalProperties": False, "maxProperties": 3},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,4}$"}, "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 2},
    {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}, "minProperties": 1, "maxProperties": 2, "additionalProperties": False},
    {"type": "object", "properties": {"email": {"type": "string", "format": "email"}, "ip": {"type": "string", "format": "ipv4"}}, "required": ["email", "ip"]},
    {"type": "object", "properties": {"d": {"type": "string", "format": "date"}, "t": {"type": "string", "format": "time"}}, "required": ["d", "t"]},
    {"type": "object", "properties": {"caf\u00e9 \"quoted\" \\ \u65e5": {"const": "line\nbreak \u00e9"}}, "required": ["caf\u00e9 \"quoted\" \\ \u65e5"]},
    {"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 13},
    {"type": "number", "minimum": 0.125, "maximum": 0.5},
    {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}, "maxItems": 2}}, "required": ["list"]},
    {"enum": ["", "a", "aa", "aab"]},
    {"const": {"x": [1, 2.5, {"y": None}], "z": "\u20ac"}},
    {"type": "object", "required": ["free"], "maxProperties": 1},
    {"type": "string", "nullable": True, "maxLength": 2},
    {"definitions": {"color": {"enum": ["r", "g"]}}, "type": "array", "items": {"$ref": "#/definitions/color"}, "minItems": 3, "maxItems": 3},
    {"anyOf": [{"type": "string", "format": "ipv6"}, {"type": "string", "format": "duration"}]},
]


def make(seed):
    """A schema that something satisfies."""
    return _Maker(random.Random(seed)).schema(0)


class _Maker:
    def __init__(self, rng):
        self.rng = rng

    def schema(self, depth):
        kinds = [self.string, self.integer, self.number, self.enum, self.simple]
        if depth < 3:
            kinds += [self.object, self.object, self.array, self.any_of]
        if depth == 0:
            kinds = [self.object, self.array, self.object]
        schema = self.rng.choice(kinds)(depth)
        if self.rng.random() < 0.1:
            schema["description"] = "what it is for"
        return schema

    def simple(self, _):
        return self.rng.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["boolean", "null"]}])

    def string(self, _):
        kind = self.rng.randrange(4)
        if kind == 0:
            least = self.rng.randrange(4)
            return {"type": "string", "minLength": least, "maxLength": least + self.rng.randrange(12)}
        if kind == 1:
            return {"type": "string", "pattern": self.rng.choice(["^[a-z]+[0-9]$", "^(foo|bar)*$", "^\\d{2}:\\d{2}$", "^[^aeiou]{1,3}$", "^\\w+@\\w+$", "^.{2}$", "^\"q\"$"]), "maxLength": 14}
        if kind == 2:
            return {"type": "string", "format": self.rng.choice(["date", "time", "date-time", "uuid", "ipv4", "email", "duration"])}
        return {"type": "string", "maxLength": 8}

    def integer(self, _):
        schema = {"type": "integer"}
        least = self.rng.randrange(-500, 500)
        if self.rng.random() < 0.7:
            schema["minimum"] = least
        if self.rng.random() < 0.7:
            schema["maximum"] = least + self.rng.randrange(2000)
        if self.rng.random() < 0.2:
            schema["multipleOf"] = self.rng.choice([1, 2, 3, 10])
            schema.pop("maximum", None)
        return schema

    def number(self, _):
        schema = {"type": "number"}
        least = round(self.rng.uniform(-50, 50), self.rng.randrange(3))
        if self.rng.random() < 0.5:
            schema[self.rng.choice(["minimum", "exclusiveMinimum"])] = least
        if self.rng.random() < 0.5:
            schema[self.rng.choice(["maximum", "exclusiveMaximum"])] = round(least + self.rng.uniform(1, 40), 2)
        return schema

    def enum(self, _):
        values = ["yes", "no", "may\tbe", 1, 2.5, None, True, [1], {"k": "v"}, "\u00fcber"]
        return {"enum": self.rng.sample(values, self.rng.randrange(1, 5))}

    def object(self, depth):
        names = self.rng.sample(["a", "b", "name", "ab", "value", "x y", "\u00e9", "na"], self.rng.randrange(1, 5))
        schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        schema["required"] = [name for name in names if self.rng.random() < 0.6]
        kind = self.rng.randrange(4)
        if kind == 0:
            schema["additionalProperties"] = False
        if kind == 1:
            schema["additionalProperties"] = self.schema(3)
            schema["maxProperties"] = len(names) + 1
        return schema

    def array(self, depth):
        least = self.rng.randrange(3)
        return {"type": "array", "items": self.schema(depth + 1), "minItems": least, "maxItems": least + self.rng.randrange(3)}

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.rng.randrange(1, 4))]}
