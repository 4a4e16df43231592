"""Schemas as applications have them, and texts that satisfy them."""

import json
import random

WORDS = "the a delivery order was late because traffic weather customer asked for refund soon after small red blue kitchen lamp chair table good bad and it is not very happy with über café 日本 service".split()

S, I, B = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def obj(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS = [
    obj(name=S, age={"type": "integer", "minimum": 0, "maximum": 130}, email={"type": "string", "format": "email"}),
    obj(sentiment={"enum": ["positive", "negative", "neutral"]}, confidence={"type": "number", "minimum": 0, "maximum": 1}, reason=S),
    obj(title={"type": "string", "maxLength": 60}, tags={"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 6}, done=B),
    obj(steps={"type": "array", "items": obj(explanation=S, output=S)}, final_answer=S),
    obj(id={"type": "string", "format": "uuid"}, created={"type": "string", "format": "date-time"}, items={"type": "array", "items": obj(sku={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, quantity={"type": "integer", "minimum": 1}, price={"type": "number", "minimum": 0})}),
    {"type": "object", "properties": {"name": {"const": "get_weather"}, "arguments": obj(city=S, unit={"enum": ["celsius", "fahrenheit"]}, days={"type": "integer", "minimum": 1, "maximum": 14})}, "required": ["name", "arguments"], "additionalProperties": False},
    {"$defs": {"node": {"type": "object", "properties": {"label": S, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["label", "children"], "additionalProperties": False}}, "$ref": "#/$defs/node"},
    {"type": "array", "items": {"anyOf": [obj(kind={"const": "text"}, text=S), obj(kind={"const": "image"}, url=S, alt={"type": "string", "maxLength": 80})]}},
    obj(**{f"field_{i}": S if i % 3 else I for i in range(24)}),
    {"type": "object"},
    obj(rows={"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}}),
    obj(summary={"type": "string", "minLength": 20, "maxLength": 400}, language={"enum": ["en", "fr", "de", "ja", "zh"]}, keywords={"type": "array", "items": S, "maxItems": 8}),
]


def text_of(schema, rng):
    return json.dumps(_value(schema, schema, rng, 0), ensure_ascii=False, separators=(",", ":") if rng.random() < 0.5 else (", ", ": "))


def _words(schema, rng):
    most = schema.get("maxLength", 200)
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(3, 25)))
    while len(text) < schema.get("minLength", 0):
        text += " " + rng.choice(WORDS)
    return text[:most]


def _string(schema, rng):
    digit = lambda n: "".join(rng.choice("0123456789") for _ in range(n))
    if "pattern" in schema:
        return "".join(rng.choice("ABCXYZ") for _ in range(3)) + "-" + digit(4)
    return {"email": f"user{digit(3)}@example.org", "uuid": f"{digit(8)}-{digit(4)}-4abc-9def-{digit(12)}", "date-time": f"2024-0{rng.randrange(1, 10)}-1{digit(1)}T1{digit(1)}:2{digit(1)}:30Z"}.get(schema.get("format")) or _words(schema, rng)


def _value(schema, root, rng, depth):
    if "$ref" in schema:
        return _value(root["$defs"]["node"], root, rng, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return _value(rng.choice(schema["anyOf"]), root, rng, depth)
    kind = schema["type"]
    if kind == "string":
        return _string(schema, rng)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", -1000), schema.get("maximum", 5000)
        return rng.randint(int(least), int(most)) if kind == "integer" else round(rng.uniform(least, most), 3)
    if kind == "array":
        n = max(schema.get("minItems", 0), min(schema.get("maxItems", 5), rng.randrange(1, 5) if depth < 3 else 0))
        return [_value(schema["items"], root, rng, depth + 1) for _ in range(n)]
    if "properties" not in schema:
        return {"free": _words({}, rng), "list": [1, 2.5, None, {"deep": _words({}, rng)}]}
    return {name: _value(value, root, rng, depth + 1) for name, value in schema["properties"].items()}
