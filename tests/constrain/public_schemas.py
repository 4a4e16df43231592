"""JSON schemas as they are found in public collections: of events, cluster resources, articles, tool calls and configuration files."""

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def event(properties, required=(), **more):
    """An event that describes itself."""
    return {
        "$schema": "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#",
        "self": {"vendor": "org.example", "name": "event", "format": "jsonschema", "version": "1-0-0"},
        "description": "Schema of an event",
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def call(properties, required=()):
    """The arguments of a tool."""
    return {"type": "object", "properties": properties, "required": list(required)}


EVENTS = [
    event({"targetUrl": {"type": "string", "format": "uri"}, "elementId": {"type": "string", "maxLength": 255}}, ["targetUrl"]),
    event({"timestamp": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}, "latitude": {"type": "number", "minimum": -90, "maximum": 90}}, ["latitude"]),
    event({"name": {"type": ["string", "null"], "maxLength": 64}, "price": {"type": ["number", "null"], "minimum": 0, "maximum": 100000000}}),
    event({"id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{10}$"}, "count": {"type": ["integer", "string"], "maxLength": 10, "minimum": 0, "maximum": 65535}}, ["id"]),
    event({"ip": {"oneOf": [{"format": "ipv4"}, {"format": "ipv6"}], "type": "string"}}, ["ip"]),
    event({"sku": {"type": "string", "maxLength": 65535}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 32}, "minItems": 1, "maxItems": 5}}, ["tags"], minProperties=1),
    event({"userId": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"}, "body": {"type": "string", "maxLength": 2147483647}}, ["userId", "at"]),
    event({"data": {"type": "array", "items": {"type": "object", "properties": {"schema": {"type": "string", "pattern": "^iglu:[a-zA-Z0-9-_.]+/[a-zA-Z0-9-_]+$"}, "data": {}}, "required": ["schema", "data"], "additionalProperties": False}, "maxItems": 2}}, ["data"]),
    event({"level": {"enum": ["a", "b", None]}, "flags": {"type": "object", "additionalProperties": {"type": "boolean"}}}, ["level"]),
    event({"x": {"type": "number"}, "y": {"type": "number"}}, dependencies={"x": ["y"], "y": ["x"]}),
]

RESOURCES = [
    {
        "$schema": "http://json-schema.org/schema#",
        "description": "A condition of a resource",
        "type": "object",
        "properties": {
            "lastTransitionTime": {"$ref": "#/definitions/io.k8s.Time", "description": "When"},
            "message": {"type": ["string", "null"]},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        },
        "required": ["status"],
        "definitions": {"io.k8s.Time": {"type": "string", "format": "date-time"}},
        "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "X", "version": "v1"}],
    },
    {"type": "object", "properties": {"port": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "replicas": {"type": ["integer", "null"], "format": "int32"}, "data": {"type": ["string", "null"], "format": "byte"}}, "required": ["port"]},
    {"type": "object", "properties": {"labels": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}, "kind": {"enum": ["List"], "type": ["string", "null"]}}, "required": ["kind", "labels"]},
    {"type": "object", "properties": {"spec": {"$ref": "#/definitions/spec"}}, "definitions": {"spec": {"type": "object", "properties": {"not": {"$ref": "#/definitions/spec"}, "allOf": {"type": "array", "items": {"$ref": "#/definitions/spec"}}, "x": {"type": "integer", "format": "int64"}}}}},
    {"type": "object", "required": ["items"], "properties": {"items": {"type": ["array", "null"], "items": {"type": "object", "required": ["key", "operator"], "properties": {"key": {"type": "string", "x-kubernetes-patch-strategy": "merge"}, "operator": {"type": "string"}, "values": {"type": "array", "items": {"type": "string"}}}}}}},
]

ARTICLES = [
    {
        "$schema": DRAFT_4,
        "allOf": [{"$ref": "#/definitions/base"}, {"properties": {"headline": {"type": "string", "maxLength": 40}}, "required": ["headline"]}],
        "definitions": {"base": {"type": "object", "properties": {"type": {"enum": ["story"], "type": "string"}, "version": {"enum": ["0.5.8"], "type": "string"}}, "required": ["type", "version"]}},
    },
    {
        "type": "object",
        "properties": {"promo": {"oneOf": [{"$ref": "#/definitions/image"}, {"$ref": "#/definitions/reference"}]}},
        "required": ["promo"],
        "definitions": {
            "image": {"type": "object", "additionalProperties": False, "properties": {"type": {"enum": ["image"]}, "width": {"type": "integer", "minimum": 0}}, "required": ["type"]},
            "reference": {"type": "object", "additionalProperties": False, "properties": {"type": {"enum": ["reference"]}, "referent": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}, "required": ["type", "referent"]},
        },
    },
    {"type": "object", "properties": {"distributor": {"oneOf": [{"type": "object", "additionalProperties": False, "properties": {"name": {"type": "string"}, "category": {"enum": ["staff", "wires"]}}}, {"type": "object", "additionalProperties": False, "properties": {"reference_id": {"type": "string"}}}]}}, "required": ["distributor"]},
    {"type": "object", "patternProperties": {"^[a-zA-Z0-9_]*": {"type": "array", "items": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}, "maxItems": 2}}, "properties": {"by": {"type": "array", "items": {"type": "string", "maxLength": 5}}}},
    {"type": "object", "properties": {"extended_address": {"type": "string"}, "post_office_box": {"type": "string"}, "street_address": {"type": "string"}}, "dependencies": {"extended_address": ["street_address"], "post_office_box": ["street_address"]}, "additionalProperties": False},
    {"type": "object", "properties": {"referent": {"type": "object", "properties": {"type": {"type": "string", "maxLength": 9}, "website": {"type": "string", "maxLength": 9}}, "dependencies": {"website": {"properties": {"type": {"enum": ["section"]}}}}, "required": ["type"]}}, "required": ["referent"]},
]

CALLS = [
    call({"expression": {"type": "string", "description": "What to compute"}}, ["expression"]),
    call({"amount": {"type": "number", "minimum": 0.01}, "from_currency": {"type": "string", "enum": ["EUR", "USD"]}, "to_currency": {"type": "string"}}, ["amount", "from_currency"]),
    call({"start": {"type": "string", "format": "date"}, "end": {"type": "string", "format": "date"}, "guests": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1, "maxItems": 3}}, ["start", "guests"]),
    call({"ingredients": {"type": "array", "items": {"type": "string"}, "maxItems": 3}, "diet": {"type": "array", "items": {"enum": ["vegan", "kosher", "halal"]}, "uniqueItems": True}}, ["ingredients", "diet"]),
    call({"length": {"type": "integer", "minimum": 8, "maximum": 128}, "symbols": {"type": "boolean", "default": True}}, ["length"]),
    call({"loan": {"type": "object", "properties": {"rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "years": {"type": "integer", "minimum": 1, "maximum": 40}}, "required": ["rate", "years"], "additionalProperties": False}}, ["loan"]),
    call({"query": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Query"}, "page": {"type": "integer", "exclusiveMinimum": 0}}, ["query"]),
]

FILES = [
    {"$schema": DRAFT_7, "$id": "https://example.org/config.json", "title": "Configuration", "type": "object", "properties": {"server": {"$ref": "#/definitions/server"}, "servers": {"type": "array", "items": {"$ref": "https://example.org/config.json#/definitions/server"}, "maxItems": 2}}, "required": ["server"], "definitions": {"server": {"type": "object", "properties": {"host": {"type": "string", "format": "hostname"}, "port": {"type": "integer", "minimum": 1, "maximum": 65535, "examples": [80]}}, "required": ["host"], "additionalProperties": False}}},
    {"$schema": DRAFT_7, "type": "object", "properties": {"kind": {"enum": ["file", "http"]}, "path": {"type": "string"}, "url": {"type": "string", "format": "uri"}}, "required": ["kind"], "if": {"properties": {"kind": {"const": "file"}}}, "then": {"required": ["path"]}, "else": {"required": ["url"]}},
    {"$schema": DRAFT_7, "type": "object", "properties": {"include": {"type": "array", "items": {"type": "string"}, "maxItems": 2}, "exclude": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}, "oneOf": [{"required": ["include"]}, {"required": ["exclude"]}], "additionalProperties": False},
    {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "not": {"required": ["a", "b"]}, "minProperties": 1, "additionalProperties": False},
    {"$schema": DRAFT_4, "type": "object", "properties": {"level": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 10, "exclusiveMaximum": True}}, "required": ["level"]},
    {"$schema": DRAFT_4, "type": "object", "patternProperties": {"^[a-z][a-z0-9_]*$": {"oneOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2}]}}, "additionalProperties": False, "minProperties": 1, "maxProperties": 3},
    {"$schema": DRAFT_2020, "type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}, {"enum": ["Street", "Avenue"]}], "items": False, "minItems": 3},
    {"$schema": DRAFT_7, "type": "array", "items": [{"type": "integer"}, {"type": "boolean"}], "additionalItems": False, "minItems": 1},
    {"$schema": DRAFT_7, "$ref": "#/definitions/tree", "definitions": {"tree": {"type": "object", "properties": {"value": {"type": "integer", "minimum": 0, "maximum": 9}, "left": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/tree"}]}, "right": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/tree"}]}}, "required": ["value", "left", "right"], "additionalProperties": False}}},
    {"$schema": DRAFT_2020, "type": "object", "properties": {"shape": {"oneOf": [{"$ref": "#circle"}, {"$ref": "#square"}]}}, "required": ["shape"], "$defs": {"c": {"$anchor": "circle", "type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}}, "required": ["kind", "radius"]}, "s": {"$anchor": "square", "type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number", "minimum": 0, "maximum": 1000}}, "required": ["kind", "side"]}}},
    {"$schema": DRAFT_7, "type": "object", "properties": {"version": {"type": "string", "pattern": "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$"}, "license": {"anyOf": [{"enum": ["MIT", "ISC"]}, {"type": "string", "maxLength": 12}]}, "private": {"const": True}}, "required": ["version", "license"], "javaType": "org.example.Package", "propertyOrder": 3},
    {"$schema": DRAFT_7, "type": "object", "properties": {"size": {"type": "string", "pattern": "^\\d{1,4}(px|em|%)?$"}, "color": {"type": "string", "pattern": "^#(?:[0-9a-fA-F]{3}){1,2}$"}, "variable": {"type": "string", "pattern": "^\\$\\{[A-Z_]{1,8}}$"}}, "required": ["size", "color", "variable"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"word": {"type": "string", "pattern": "^\\S+$", "maxLength": 12}, "text": {"type": "string", "pattern": "^[^\\s\\d]{2,8}$"}, "sign": {"type": "string", "pattern": "^\\W{1,3}$"}, "name": {"type": "string", "pattern": "^\\D\\w{1,5}$"}}, "required": ["word", "text", "sign", "name"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"step": {"type": "integer", "multipleOf": 4, "minimum": 1, "maximum": 99}, "scale": {"type": "number", "multipleOf": 1}, "ratio": {"type": "number", "minimum": 0, "maximum": 1}}, "required": ["step", "scale", "ratio"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"mode": {"type": "string", "not": {"enum": ["none", "off"]}, "maxLength": 6}, "n": {"type": "integer", "not": {"const": 0}, "minimum": -2, "maximum": 2}}, "required": ["mode", "n"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"id": {"oneOf": [{"type": "string", "maxLength": 8}, {"enum": ["all", 0]}]}}, "required": ["id"]},
    {"$schema": DRAFT_7, "definitions": {"positive": {"type": "integer", "minimum": 0}, "withDefault": {"allOf": [{"$ref": "#/definitions/positive"}, {"default": 0}]}, "names": {"type": "array", "items": {"type": "string", "maxLength": 4}, "uniqueItems": True, "maxItems": 1}}, "type": "object", "properties": {"maxLength": {"$ref": "#/definitions/positive"}, "minLength": {"$ref": "#/definitions/withDefault"}, "required": {"$ref": "#/definitions/names"}}, "additionalProperties": False},
    {"$schema": DRAFT_7, "type": "object", "propertyNames": {"enum": ["en", "de", "fr"]}, "additionalProperties": {"type": "string", "maxLength": 8}, "minProperties": 1},
    {"$schema": DRAFT_7, "type": "object", "properties": {"env": {"type": "object", "patternProperties": {"^[A-Z_]+$": {"type": ["string", "number", "boolean"]}}, "additionalProperties": False, "maxProperties": 20}}, "required": ["env"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"cron": {"type": "string", "pattern": "^(\\*|[0-5]?\\d)( (\\*|\\d{1,2})){4}$"}, "every": {"type": "string", "format": "duration"}}, "oneOf": [{"required": ["cron"]}, {"required": ["every"]}]},
    {"$schema": DRAFT_2020, "type": "object", "properties": {"card": {"type": "string", "maxLength": 4}, "billing": {"type": "string", "maxLength": 4}}, "dependentRequired": {"card": ["billing"]}, "dependentSchemas": {"billing": {"properties": {"billing": {"minLength": 2}}}}},
    {"$schema": DRAFT_7, "type": "object", "properties": {"pointer": {"type": "string", "format": "json-pointer"}, "link": {"type": "string", "format": "uri-reference"}, "match": {"type": "string", "format": "regex"}, "file": {"type": "string", "format": "byte"}}, "required": ["pointer", "link", "match", "file"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"value": {"allOf": [{"type": "number"}, {"minimum": -1}, {"maximum": 1}, {"not": {"const": 0}}]}}, "required": ["value"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"type": "string", "nullable": True, "maxLength": 3}}, "required": ["a"]},
    {"title": "Any of several kinds", "anyOf": [{"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}, {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}, "maxItems": 3}]},
    {"type": "object", "properties": {"matrix": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number", "minimum": -1, "maximum": 1}}}}, "required": ["matrix"]},
    {"type": "object", "properties": {"bbox": {"oneOf": [{"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "number"}}, {"type": "array", "minItems": 6, "maxItems": 6, "items": {"type": "number"}}]}, "type": {"type": "string", "const": "Feature"}}, "required": ["type", "bbox"]},
    {"type": "object", "properties": {"geometry": {"anyOf": [{"type": "object", "properties": {"type": {"enum": ["Point"]}, "coordinates": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}}, "required": ["type", "coordinates"]}, {"type": "null"}]}}, "required": ["geometry"]},
    {"type": "object", "additionalProperties": {"type": "object", "properties": {"image": {"type": "string"}, "ports": {"type": "array", "items": {"type": "number", "format": "ports"}, "maxItems": 2}}, "additionalProperties": False}},
    {"type": "object", "properties": {"weekdays": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}, "uniqueItems": True, "minItems": 2, "maxItems": 4}}, "required": ["weekdays"]},
    {"oneOf": [{"type": "integer", "maximum": -1}, {"type": "integer", "minimum": 1}, {"type": "string", "format": "uuid"}, {"type": "boolean"}]},
    {"type": "string", "minLength": 2, "maxLength": 6, "pattern": "^[\\w.-]+$", "$comment": "a name"},
]

CONDITIONS = [
    {"$schema": DRAFT_2020, "type": "object", "allOf": [{"$ref": "#/$defs/base"}], "properties": {"price": {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 1000}}, "required": ["price"], "unevaluatedProperties": False, "$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["id"]}}},
    {"$schema": DRAFT_2020, "type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"], "oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer", "minimum": 0, "maximum": 9}}}, {"properties": {"kind": {"const": "b"}, "y": {"type": "boolean"}}}], "unevaluatedProperties": False},
    {"$schema": DRAFT_2020, "type": "object", "properties": {"a": {"const": 1}}, "patternProperties": {"^x-[a-z]{1,4}$": {"type": "boolean"}}, "unevaluatedProperties": {"type": "null"}, "maxProperties": 3},
    {"$schema": DRAFT_2020, "type": "array", "allOf": [{"prefixItems": [{"type": "boolean"}, {"enum": ["x", "y"]}]}], "unevaluatedItems": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 5},
    {"$schema": DRAFT_2020, "type": "array", "items": {"enum": ["admin", "user", "guest", 5]}, "contains": {"type": "string", "pattern": "^a"}, "maxItems": 4},
    {"$schema": DRAFT_2020, "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "contains": {"minimum": 5}, "minContains": 2, "maxContains": 3, "maxItems": 6},
    {"$schema": DRAFT_2020, "type": "object", "properties": {"step": {"type": "number", "multipleOf": 0.5, "minimum": -4, "maximum": 4}, "percent": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 100}, "tenth": {"type": "number", "multipleOf": 0.1, "minimum": -20, "exclusiveMaximum": 20}}, "required": ["step", "percent", "tenth"]},
    {"$schema": DRAFT_7, "type": "object", "properties": {"name": {"type": "string", "pattern": "^(?!-)[a-z0-9-]{1,12}$"}, "id": {"type": "string", "pattern": "^(?=.{3,8}$)[a-z]+(_[a-z]+)*$"}, "word": {"type": "string", "pattern": "^(?!(true|false)$)\\w{1,6}$"}}, "required": ["name", "id", "word"]},
]

ALL = EVENTS + RESOURCES + ARTICLES + CALLS + FILES + CONDITIONS
