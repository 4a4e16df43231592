// Conditions on what else is there: contains, unevaluated…, fractions, and lookahead in patterns.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "constrain/schemas.h"

namespace kvik::constrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Schema, ContainsCountsElements) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "array", "contains": {"const": 1}})", {"[1]", "[2,1]", "[1,\"a\",1]"}, {"[]", "[2]", "[2,\"a\"]"}},
           {R"({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "minContains": 2})",
            {"[1,1]", "[1,2,2,1]", "[1,1,1]"},
            {"[1]", "[1,2]", "[1,1,3]"}},
           {R"({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "maxContains": 2})",
            {"[1]", "[2,1,1,2]"},
            {"[2]", "[]", "[1,1,1]", "[1,2,1,1]"}},
           {R"({"type": "array", "contains": {"const": 1}, "minContains": 0, "maxContains": 1})",
            {"[]", "[2]", "[2,1]"},
            {"[1,1]", "[1,2,1]"}},
           {R"({"type": "array", "contains": {"type": "string"}, "minContains": 0})", {"[]", "[1]", "[\"a\"]"}, {"1"}},
           {R"({"type": "array", "contains": {"type": "string"}, "minItems": 2, "maxItems": 3})",
            {"[1,\"a\"]", "[\"a\",1,2]"},
            {"[\"a\"]", "[1,2]", "[1,2,3,\"a\"]", "[1,2,3]"}},
           {R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": ["string", "null"]}, "contains": {"type": "string"}})",
            {"[1,\"a\"]", "[1,null,\"a\"]"},
            {"[1]", "[\"a\"]", "[1,null]"}},
           {R"({"type": "array", "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]})",
            {"[1,2]", "[2,3,1]"},
            {"[1]", "[2,2]"}},
           {R"({"type": "array", "contains": {"minimum": 5}, "items": {"type": "integer"}, "minContains": 2, "maxContains": 2})",
            {"[5,6]", "[1,5,2,9]"},
            {"[5]", "[5,6,7]"}},
           {R"({"not": {"contains": {"const": 1}}, "type": "array"})", {"[]", "[2,3]"}, {"[1]", "[2,1]"}},
           {R"({"enum": [[1], [2, 1], [2]], "contains": {"const": 1}})", {"[1]", "[2,1]"}, {"[2]"}},
           {R"({"contains": {"const": 1}})", {"1", "\"a\"", "[1]"}, {"[2]"}}}),
      IsEmpty());
  EXPECT_THAT(schema_error(R"({"type": "array", "contains": {"const": 1}, "items": {"const": 2}})"), HasSubstr("match"));
  EXPECT_THAT(schema_error(R"({"type": "array", "contains": 5})"), HasSubstr("/contains: a schema was expected"));
  EXPECT_THAT(schema_error(R"({"type": "array", "contains": true, "minContains": -1})"), HasSubstr("/minContains"));
  EXPECT_THAT(schema_error(R"({"type": "array", "contains": {"const": 1}, "minContains": 90000, "minItems": 90000})"),
              HasSubstr("too large"));
}

TEST(Schema, WhatIsEvaluatedElsewhereIsNotUnevaluated) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": true}, "type": "object", "unevaluatedProperties": false})",
            {"{}", R"({"b":1,"a":1})", R"({"a":1})"},
            {R"({"c":1})", R"({"a":"x"})"}},
           {R"({"$ref": "#/$defs/base", "unevaluatedProperties": false, "type": "object", "$defs": {"base": {"properties": {"a": {"const": 1}}, "required": ["a"]}}})",
            {R"({"a":1})"},
            {"{}", R"({"a":2})", R"({"a":1,"b":1})"}},
           {R"({"type": "object", "properties": {"a": true}, "unevaluatedProperties": {"type": "string"}})",
            {"{}", R"({"a":1,"b":"x"})", R"({"b":"x"})"},
            {R"({"b":1})", R"({"a":1,"b":1})"}},
           {R"({"type": "object", "allOf": [{"additionalProperties": {"type": "string"}}], "unevaluatedProperties": false})",
            {"{}", R"({"b":"x"})"},
            {R"({"b":1})"}},
           {R"({"type": "object", "patternProperties": {"^x": true}, "unevaluatedProperties": false})",
            {"{}", R"({"x1":1})"},
            {R"({"y":1})"}},
           // What is not beside it does not count.
           {R"({"type": "object", "properties": {"a": true}, "allOf": [{"unevaluatedProperties": false}]})", {"{}"}, {R"({"a":1})"}},
           {R"({"type": "object", "unevaluatedProperties": false})", {"{}"}, {R"({"a":1})"}},
           {R"({"type": "object", "properties": {"a": true}, "not": {"properties": {"b": {"const": 1}}, "required": ["b"]}, "unevaluatedProperties": false})",
            {"{}", R"({"a":1})"},
            {R"({"b":2})", R"({"b":1})"}},
           {R"({"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 1}}, "required": ["b"]}], "unevaluatedProperties": false})",
            {R"({"a":1})", R"({"b":1})"},
            {"{}", R"({"a":1,"c":1})", R"({"a":2})"}},
           {R"({"type": "object", "if": {"properties": {"k": {"const": "x"}}, "required": ["k"]}, "then": {"properties": {"x": true}}, "else": {"properties": {"k": {"const": "y"}, "y": true}}, "unevaluatedProperties": false})",
            {R"({"k":"x","x":1})", R"({"k":"y","y":1})"},
            {R"({"k":"x","y":1})", R"({"k":"y","x":1})"}},
           {R"({"oneOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/s"}], "$defs": {"c": {"type": "object", "allOf": [{"$ref": "#/$defs/n"}], "properties": {"kind": {"const": "c"}}, "required": ["kind"], "unevaluatedProperties": false}, "s": {"type": "object", "allOf": [{"$ref": "#/$defs/n"}], "properties": {"kind": {"const": "s"}}, "required": ["kind"], "unevaluatedProperties": false}, "n": {"properties": {"n": {"const": 1}}}}})",
            {R"({"kind":"c","n":1})", R"({"kind":"s"})"},
            {R"({"kind":"x"})", R"({"kind":"c","m":1})", R"({"n":1})"}},
           {R"({"type": "array", "allOf": [{"prefixItems": [{"const": 1}]}], "prefixItems": [true, {"const": 2}], "unevaluatedItems": false})",
            {"[]", "[1]", "[1,2]"},
            {"[2]", "[1,2,3]"}},
           {R"({"type": "array", "allOf": [{"items": {"type": "integer"}}], "unevaluatedItems": false})", {"[]", "[1,2]"}, {"[\"a\"]"}},
           {R"({"type": "array", "prefixItems": [true], "unevaluatedItems": {"const": 2}})", {"[1]", "[1,2,2]"}, {"[1,1]"}}}),
      IsEmpty());
  EXPECT_THAT(schema_error(R"({"type": "object", "unevaluatedProperties": 5})"), HasSubstr("a schema was expected"));
}

TEST(Schema, MultiplesOfFractions) {
  EXPECT_THAT(
      mistakes_in({{R"({"type": "number", "multipleOf": 0.5})", {"0", "1", "-1.5", "12.0", "7"}, {"0.25", "1.", "01.5", "0.55", "1.5e0"}},
                   {R"({"type": "number", "multipleOf": 0.25, "minimum": -1, "exclusiveMaximum": 2.5})",
                    {"-1", "-0.75", "0", "2.25", "1.50"},
                    {"-1.25", "2.5", "0.3", "2.75"}},
                   {R"({"type": "number", "multipleOf": 2.5})", {"2.5", "5", "10.0", "-7.5"}, {"1", "2", "2.55"}},
                   {R"({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 100})",
                    {"0", "0.01", "99.99", "100", "12.5", "3"},
                    {"100.01", "0.001", "-1", "0.50001"}},
                   {R"({"type": "integer", "multipleOf": 0.01})", {"0", "7", "-123"}, {"0.5"}},
                   {R"({"type": "integer", "multipleOf": 1.5})", {"0", "3", "-9"}, {"1", "2"}},
                   {R"({"type": "number", "allOf": [{"multipleOf": 0.5}, {"multipleOf": 0.75}]})", {"1.5", "0", "3"}, {"0.5", "0.75", "1"}},
                   {R"({"enum": [0.5, 0.75], "multipleOf": 0.5})", {"0.5"}, {"0.75"}}}),
      IsEmpty());
  // 0.07 / 0.01 is not a whole number in binary arithmetic, which most validators use: it is left out.
  EXPECT_THAT(mistakes_in({{R"({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1})", {"0.06", "0.08"}, {"0.07", "0.29"}}}),
              IsEmpty());
  EXPECT_THAT(schema_error(R"({"type": "number", "multipleOf": 0.01})"), HasSubstr("only between a minimum and a maximum"));
  EXPECT_THAT(schema_error(R"({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1000})"), HasSubstr("20000 values"));
  EXPECT_THAT(schema_error(R"({"type": "number", "multipleOf": 0.00001})"), HasSubstr("4 decimals"));
  EXPECT_THAT(schema_error(R"({"type": "number", "multipleOf": -0.5})"), HasSubstr("not above 0"));
}

TEST(Schema, LookaheadAtTheBeginningOfAPattern) {
  const auto string_with = [](const char* pattern) { return fmt::format(R"({{"type": "string", "pattern": "{}"}})", pattern); };
  const std::string no_foo = string_with("^(?!foo)[a-z]+$"), short_ones = string_with("^(?=.{1,3}$)[a-z]*(-[a-z]+)*$"),
                    password = string_with("^(?=.*[A-Z])(?=.*\\\\d).{3,5}$"), reserved = string_with("^(?!(con|aux)$)(?!-)[a-z-]+$"),
                    unanchored = string_with("^(?!a)"), nothing = string_with("^(?!a)a");
  EXPECT_THAT(
      mistakes_in({{no_foo.c_str(), {R"("fo")", R"("barfoo")", R"("fxoo")"}, {R"("foo")", R"("food")", R"("")", R"("B")"}},
                   {short_ones.c_str(), {R"("a")", R"("a-b")"}, {R"("")", R"("a-bc")", R"("abcd")"}},
                   {password.c_str(), {R"("A1x")", R"("xx0Z")"}, {R"("a1x")", R"("ABC")", R"("A1")", R"("aaaaA1")"}},
                   {reserved.c_str(), {R"("cone")", R"("a-b")", R"("con-")"}, {R"("con")", R"("aux")", R"("-a")"}},
                   {unanchored.c_str(), {R"("")", R"("ba")", R"("Xyz")"}, {R"("a")", R"("ab")"}},
                   {R"x({"type": "string", "not": {"pattern": "^(?!a)b"}})x", {R"("a")", R"("ab")", R"("c")"}, {R"("b")", R"("ba")"}},
                   {R"x({"type": "object", "patternProperties": {"^(?!x)": {"const": 1}}, "additionalProperties": {"const": 2}})x",
                    {R"({"a":1})", R"({"x":2})"},
                    {R"({"a":2})", R"({"x":1})"}}}),
      IsEmpty());
  EXPECT_THAT(schema_error(nothing), HasSubstr("match"));
  for (const char* pattern : {"(?!a)b", "a(?=b)", "^(?!a)b|c", "^(a|(?!b))c", "^(?!(?=a))", "^(?!a)*b", "^(?<!a)b", "^(?!a"})
    EXPECT_THAT(schema_error(string_with(pattern)), HasSubstr("/pattern")) << pattern;
}

// What does not match in one dialect may match in another: it is not written either.
TEST(Schema, NegatedPatternsMatchInNoDialect) {
  EXPECT_THAT(mistakes_in({{R"({"type": "string", "not": {"pattern": "^\\d$"}})", {R"("a")", R"("11")"}, {R"("1")", "\"\u0663\""}},
                           {R"({"type": "string", "not": {"pattern": "^a$"}})", {R"("aa")", R"("a\r")"}, {R"("a")", R"("a\n")"}},
                           {R"({"type": "string", "not": {"pattern": "a.b"}})", {R"("ab")", R"("a\nb")"}, {R"("axb")", R"("a\rb")"}}}),
              IsEmpty());
}

}  // namespace
}  // namespace kvik::constrain
