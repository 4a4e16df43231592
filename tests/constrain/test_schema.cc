#include <fmt/format.h>
#include <gmock/gmock.h>

#include "constrain/schemas.h"

namespace kvik::constrain {
namespace {

TEST(Schema, Types) {
  EXPECT_THAT(
      mistakes_in(
          {{"true", {"1", "null", "[1, \"a\"]", "{\"a\": {}}", "-1.5e-3"}, {"", "01", "tru", "[1,]", "{a:1}"}},
           {R"({"type": "null"})", {"null"}, {"0"}},
           {R"({"type": ["boolean", "string"]})", {"true", "\"x\""}, {"1", "null"}},
           {R"({"type": "integer"})", {"0", "-12"}, {"1.5", "-", "00"}},
           {R"({"type": "number"})", {"0", "-12.25", "1e5"}, {"1.", ".5"}},
           {R"({"type": "string", "nullable": true})", {"null", "\"\""}, {"1"}},
           {R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "nullable": true})", {"\"\""}, {"null"}},
           {R"({"type": "object"})",
            {"{}", "{\"a\":1,\"b\":[2]}", "{ \"a\": 1, \"b\": [2] }"},
            {"[]", "{\"a\": 1", "{\"a\" : 1}", "{\n\"a\": 1}"}}}),
      testing::IsEmpty());
}

TEST(Schema, StringsCountCharactersNotBytesOrEscapes) {
  EXPECT_THAT(mistakes_in({{R"({"type": "string", "minLength": 2, "maxLength": 3})",
                            {R"("ab")", R"("é日")", R"("\u00e9\n")", R"("\ud83d\ude00x")", R"("😀😀😀")"},
                            {R"("a")", R"("abcd")", R"("\u00e9")", R"("\ud83d\ude00")", R"("\ud83dab")", "\"a\nb\""}},
                           {R"({"type": "string", "pattern": "^[a-c]+$"})", {R"("abc")"}, {R"("")", R"("abd")"}},
                           {R"({"type": "string", "pattern": "b"})", {R"("abc")", R"("b")"}, {R"("ac")"}},
                           {R"({"type": "string", "pattern": "^a.*\\\\$"})", {R"("a\\")", R"("a\"\\")"}, {R"("a")"}},
                           {R"({"type": "string", "pattern": "^[a-z]*$", "minLength": 3, "maxLength": 4})",
                            {R"("abc")", R"("abcd")"},
                            {R"("ab")", R"("abcde")"}},
                           {R"({"type": "string", "pattern": "^\\n$"})", {R"("\n")"}, {"\"\n\""}}}),
              testing::IsEmpty());
}

TEST(Schema, Formats) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "string", "format": "date"})",
            {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
            {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")", R"("0000-01-01")"}},
           {R"({"type": "string", "format": "time"})", {R"("23:59:59Z")", R"("00:00:00.123+01:00")"}, {R"("24:00:00Z")", R"("10:00:00")"}},
           {R"({"type": "string", "format": "date-time"})", {R"("2024-02-29T01:02:03Z")"}, {R"("2024-02-29 01:02:03Z")"}},
           {R"({"type": "string", "format": "uuid"})",
            {R"("123e4567-e89b-12d3-a456-426614174000")"},
            {R"("123e4567e89b12d3a456426614174000")"}},
           {R"({"type": "string", "format": "ipv4"})", {R"("192.168.0.255")"}, {R"("256.1.1.1")", R"("1.1.1")"}},
           {R"({"type": "string", "format": "ipv6"})", {R"("::")", R"("1:2:3:4:5:6:7:8")", R"("fe80::1")"}, {R"("1:2:3")", R"("1::2::3")"}},
           {R"({"type": "string", "format": "email"})", {R"("a.b@example.org")"}, {R"("a@b")", R"("@b.org")"}},
           {R"({"type": "string", "format": "duration"})", {R"("P1DT2H")", R"("PT5M")"}, {R"("P")", R"("1D")"}},
           {R"({"type": "string", "format": "uri"})", {R"("https://a.b/c?d=e#f")"}, {R"("a.b/c")", R"("/x")"}},
           {R"({"type": "string", "format": "uri-reference"})", {R"("https://a.b/c")", R"("/x/y?z")", R"("a.b")", R"("#f")"}, {R"("a b")"}},
           {R"({"type": "string", "format": "json-pointer"})", {R"("")", R"("/a~1b/0")"}, {R"("a")", R"("/~2")"}},
           {R"({"type": "string", "format": "byte"})", {R"("")", R"("aGk=")", R"("aGVs")"}, {R"("aGk")", R"("a===")"}},
           {R"({"type": "string", "format": "password"})", {R"("")", R"("anything")"}, {"1"}}}),
      testing::IsEmpty());
}

TEST(Schema, FormatsOfPydantic) {
  EXPECT_THAT(mistakes_in({{R"({"type": "string", "format": "base64"})", {R"("")", R"("aGk=")"}, {R"("aGk")"}},
                           {R"({"type": "string", "format": "base64url"})", {R"("a_-s")"}, {R"("a/+s")"}},
                           {R"({"type": "string", "format": "uuid4"})",
                            {R"("123e4567-e89b-42d3-a456-426614174000")"},
                            {R"("123e4567-e89b-12d3-a456-426614174000")", R"("123e4567-e89b-42d3-c456-426614174000")"}},
                           {R"({"type": "string", "format": "ipvanyaddress"})", {R"("1.2.3.4")", R"("::1")"}, {R"("1.2.3.4/8")"}},
                           {R"({"type": "string", "format": "ipvanyinterface"})", {R"("1.2.3.4/8")", R"("::1/128")"}, {R"("1.2.3.4/33")"}},
                           {R"({"type": "string", "format": "ipvanynetwork"})", {R"("1.2.3.4/32")"}, {R"("1.2.3.4/8")"}},
                           {R"({"type": "string", "format": "ipv6network"})", {R"("::1/128")"}, {R"("1.2.3.4/32")"}},
                           {R"({"type": "string", "format": "name-email"})", {R"("a@b.org")"}, {R"("a")"}},
                           {R"({"type": "string", "format": "multi-host-uri"})", {R"("postgres://a.b/c")"}, {R"("a")"}},
                           {R"({"type": "string", "format": "file-path"})", {R"("/a b")"}, {"1"}}}),
              testing::IsEmpty());
}

TEST(Schema, StringsOfAFormatAreShorterIfTheirMaximumNeedsTooManyStates) {
  EXPECT_THAT(mistakes_in({{R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})",
                            {R"("https://example.org/a/long/path/to/something/that/is/wanted?with=a&query#and-a-fragment")"},
                            {R"("")", R"("example")"}},
                           {R"({"type": "string", "format": "email", "maxLength": 10000})", {R"("somebody@example.org")"}, {R"("x")"}}}),
              testing::IsEmpty());
  EXPECT_THAT(schema_error(R"({"type": "string", "format": "uri", "minLength": 2000, "maxLength": 2083})"), testing::HasSubstr("states"));
}

TEST(Schema, IntegersBetweenBounds) {
  const std::pair<int, int> ranges[] = {{0, 0}, {3, 7}, {-5, 5}, {9, 123}, {100, 1099}, {-250, -13}, {-1, 1000}, {998, 1002}};
  for (const auto& [least, most] : ranges) {
    TextReader reader = TextReader::of_schema(R"({"type": "integer", "minimum": )" + std::to_string(least) + R"(, "maximum": )" +
                                              std::to_string(most) + "}");
    for (int n = -1100; n <= 1100; ++n)
      ASSERT_EQ(reader.accepts(std::to_string(n)), n >= least && n <= most) << n << " in " << least << " " << most;
  }
  EXPECT_THAT(
      mistakes_in({{R"({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6.5})", {"4", "5", "6"}, {"3", "7"}},
                   {R"({"type": "integer", "minimum": 2.5})", {"3", "99999"}, {"2", "-3"}},
                   {R"({"type": "integer", "maximum": -2.5})", {"-3", "-10000"}, {"-2", "0"}},
                   {R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", {"4"}, {"3"}},
                   {R"({"type": "integer", "multipleOf": 5, "minimum": -12, "maximum": 23})", {"0", "5", "-10", "20"}, {"-15", "25", "3"}},
                   {R"({"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]})", {"0", "12", "-24"}, {"4", "6", "8"}}}),
      testing::IsEmpty());
}

TEST(Schema, NumbersBetweenBounds) {
  const std::pair<std::string, std::string> ranges[] = {{"-1.5", "2.25"}, {"0", "1"},          {"0.05", "0.3"},
                                                        {"-20.75", "-3"}, {"99.5", "1000.01"}, {"1e-3", "2e1"}};
  for (const auto& [least, most] : ranges) {
    for (const bool exclusive : {false, true}) {
      TextReader reader =
          TextReader::of_schema(exclusive ? R"({"type": "number", "exclusiveMinimum": )" + least + R"(, "exclusiveMaximum": )" + most + "}"
                                          : R"({"type": "number", "minimum": )" + least + R"(, "maximum": )" + most + "}");
      for (int n = -2200; n <= 2200; n += 5) {
        for (const int scale : {1, 10, 100, 1000}) {
          const double value = static_cast<double>(n) / scale;
          std::string text = std::to_string(value);
          if (n == 0 && text[0] == '-') continue;
          const bool inside =
              exclusive ? value > std::stod(least) && value < std::stod(most) : value >= std::stod(least) && value <= std::stod(most);
          ASSERT_EQ(reader.accepts(text), inside && !(n == 0 && text[0] == '-')) << text << " in " << least << " " << most;
        }
      }
      EXPECT_FALSE(reader.accepts("1e0"));
    }
  }
}

TEST(Schema, EnumAndConst) {
  EXPECT_THAT(mistakes_in({{R"({"enum": ["a", 1, null, [1, 2], {"x": true}]})",
                            {"\"a\"", "1", "null", "[1, 2]", "[1,2]", R"({"x": true})"},
                            {"\"b\"", "[1]", "{}"}},
                           {R"({"const": "a\"\u00e9\n"})", {R"("a\"é\n")"}, {R"("a\"\u00e9\n")"}},
                           {R"({"enum": [1, 2, 3, "x"], "minimum": 2})", {"2", "3", "\"x\""}, {"1"}},
                           {R"({"enum": ["a", "bb", "ccc"], "maxLength": 2, "pattern": "b"})", {"\"bb\""}, {"\"a\"", "\"ccc\""}}}),
              testing::IsEmpty());
}

TEST(Schema, ObjectsHaveTheirPropertiesInOrder) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": true}, "required": ["b"], "type": "object"})",
            {R"({"b": null})", R"({"a": 1, "b": null})", R"({"a":1,"b":null,"c":[]})", R"({"b":null,"c":0})"},
            {"{}", R"({"a": 1})", R"({"b": null, "a": 1})", R"({"b": null, "d": 1})", R"({"b": null,})", R"({"b": null, "b": null})"}},
           {R"({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
            {"{}", R"({"a": 1, "x": "y"})", R"({"x": "y", "ab": ""})"},
            {R"({"x": 1})", R"({"a": "y"})", R"({"x": "y", "a": 1})", R"({"\u0061": "y"})"}},
           {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a": 1})"}},
           {R"({"type": "object", "required": ["z"]})", {R"({"z": 1})", R"({"z": [], "y": 2})"}, {"{}", R"({"y": 2})"}},
           {R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}}, "additionalProperties": false})",
            {R"({"x": 1})", R"({"xy": 7})", R"({"ay": "s"})"},
            {R"({"x": "1"})", R"({"xy": 3})", R"({"b": 1})"}},
           {R"({"type": "object", "properties": {"a": true, "b": true, "c": true}, "minProperties": 2, "maxProperties": 2})",
            {R"({"a": 1, "c": 2})", R"({"b": 1, "c": 2})"},
            {"{}", R"({"a": 1})", R"({"a": 1, "b": 1, "c": 1})"}},
           {R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
            {R"({"q": 1})", R"({"q": 1, "r": 2})"},
            {"{}", R"({"q": 1, "r": 2, "s": 3})"}},
           {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}})",
            {"{}", R"({"abc": 1})"},
            {R"({"abcd": 1})", R"({"A": 1})"}},
           {R"({"type": "object", "properties": {"gone": false, "a": true}})", {"{}", R"({"a": 1})"}, {R"({"gone": 1})"}}}),
      testing::IsEmpty());
}

TEST(Schema, Arrays) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
            {"[1,2]", "[1, 2, 3]"},
            {"[]", "[1]", "[1,2,3,4]", "[1,\"a\"]"}},
           {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}})",
            {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,null]"},
            {"[\"a\"]", "[1,\"a\",1]"}},
           {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 2})",
            {"[1,\"a\"]"},
            {"[1]", "[1,\"a\",1]"}},
           {R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}})", {"[1,\"a\"]"}, {"[1,2]"}},
           {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
           {R"({"type": "array", "prefixItems": [true, true, true], "maxItems": 2})", {"[1,2]"}, {"[1,2,3]"}},
           {R"({"type": "array", "minItems": 1, "items": {"type": "array", "items": {"enum": [0]}}})",
            {"[[]]", "[[0],[0, 0]]"},
            {"[]", "[[1]]"}}}),
      testing::IsEmpty());
}

TEST(Schema, DistinctElements) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "array", "items": {"enum": ["a", "b", "c", "a"]}, "uniqueItems": true, "minItems": 1, "maxItems": 2})",
            {"[\"a\"]", "[\"a\",\"c\"]", "[\"b\", \"c\"]"},
            {"[]", "[\"a\",\"a\"]", "[\"c\",\"c\"]", "[\"a\",\"b\",\"c\"]"}},
           {R"({"type": "array", "items": {"type": ["boolean", "null"]}, "uniqueItems": true})",
            {"[]", "[false,true,null]"},
            {"[true,true]"}},
           {R"({"type": "array", "items": {"anyOf": [{"const": 1}, {"enum": [2, 3]}], "maximum": 2}, "uniqueItems": true})",
            {"[1,2]"},
            {"[3]", "[1,1]"}},
           {R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 1})", {"[]", "[\"x\"]"}, {"[\"x\",\"y\"]"}},
           {R"({"enum": [[1, 1], [1, 2]], "uniqueItems": true})", {"[1,2]"}, {"[1,1]"}}}),
      testing::IsEmpty());
}

TEST(Schema, CombinationsAndReferences) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})", {"1", "\"a\""}, {"\"ab\"", "null"}},
           {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}, "a": {"minimum": 3}}}]})",
            {R"({"a": 3})", R"({"a": 4, "b": ""})"},
            {R"({"a": 2})", R"({"b": ""})"}},
           {R"({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 5}, {"type": "string"}]})",
            {"3", "5", "\"\""},
            {"4"}},
           {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})",
            {R"({"v": 1})", R"({"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3}]})"},
            {R"({"kids": []})", R"({"v": 1, "kids": [1]})"}},
           {R"({"properties": {"a/b": {"$ref": "#/definitions/x~1y"}}, "type": "object", "definitions": {"x/y": {"const": 1}}})",
            {R"({"a/b": 1})"},
            {R"({"a/b": 2})"}},
           {R"({"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}})",
            {"null", R"({"next": {"next": null}})"},
            {R"({"next": 1})"}},
           {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}}, "required": ["t"]}, {"type": "object", "properties": {"t": {"enum": ["b", "c"]}, "x": {"type": "integer"}}, "required": ["t", "x"]}]})",
            {R"({"t": "a"})", R"({"t": "c", "x": 1})"},
            {R"({"t": "a", "x": 1})", R"({"t": "b"})"}}}),
      testing::IsEmpty());
}

TEST(Schema, ReferencesByName) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"$id": "https://example.org/s", "$ref": "https://example.org/s#/$defs/a", "$defs": {"a": {"const": 1}}})", {"1"}, {"2"}},
           {R"({"$ref": "#one", "$defs": {"a": {"$anchor": "one", "const": 1}}})", {"1"}, {"2"}},
           {R"({"items": {"$ref": "address.json"}, "type": "array", "definitions": {"a": {"id": "address.json", "const": 1}}})",
            {"[1]"},
            {"[2]"}},
           {R"({"$id": "https://example.org/s", "type": ["array", "null"], "items": {"$ref": "https://example.org/s"}})",
            {"[[null]]"},
            {"[1]"}}}),
      testing::IsEmpty());
}

TEST(Schema, LimitsAboveWhatIsGenerated) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "integer", "minimum": 0, "maximum": 9223372036854775807})", {"0", "9999999999999999"}, {"-1"}},
           {R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 18446744073709551615})",
            {"0", "-9999999999999999"},
            {"0.5"}},
           {R"({"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308})", {"0", "-1.5"}, {"x"}},
           {R"({"type": "string", "maxLength": 2147483647})", {"\"\"", "\"abc\""}, {"1"}},
           {R"({"type": "string", "pattern": "^a*$", "maxLength": 262144})", {"\"\"", "\"aaa\""}, {"\"b\""}},
           {R"({"type": "array", "items": {"const": 1}, "maxItems": 10000000})", {"[]", "[1,1]"}, {"[2]"}},
           {R"({"type": "object", "properties": {"a": true}, "additionalProperties": {"type": "null"}, "maxProperties": 1000})",
            {"{}", R"({"a": 1, "b": null})"},
            {R"({"b": 1})"}},
           {R"({"type": "object", "properties": {"a": true, "b": true}, "minProperties": 1, "maxProperties": 50000, "additionalProperties": false})",
            {R"({"a": 1})", R"({"a": 1, "b": 1})"},
            {"{}"}}}),
      testing::IsEmpty());
}

TEST(Schema, Not) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"not": {"type": ["string", "object"]}})", {"1", "null", "[]"}, {"\"a\"", "{}"}},
           {R"({"type": "string", "not": {"enum": ["a.", "b"]}})", {"\"c\"", "\"a\"", "\"ab\"", "\"\""}, {"\"a.\"", "\"b\""}},
           {R"({"type": "string", "not": {"pattern": "^x"}})", {"\"ax\"", "\"\""}, {"\"x\"", "\"xa\""}},
           {R"({"type": "integer", "not": {"const": 5}})", {"4", "6", "-5", "55"}, {"5"}},
           {R"({"type": "number", "not": {"enum": [0, 1.5]}})", {"1", "1.4", "-3"}, {"0", "0.0", "1.5", "1.50"}},
           {R"({"type": ["boolean", "null"], "not": {"enum": [true, null]}})", {"false"}, {"true", "null"}},
           {R"({"type": "integer", "not": {"minimum": 3, "maximum": 5}})", {"2", "6"}, {"3", "4", "5"}},
           {R"({"type": "string", "not": {"minLength": 3}})", {"\"ab\""}, {"\"abc\""}},
           {R"({"type": "array", "not": {"maxItems": 1}})", {"[1,2]"}, {"[]", "[1]"}},
           {R"({"type": "object", "properties": {"a": true, "b": true}, "not": {"required": ["a", "b"]}})",
            {"{}", R"({"a": 1})", R"({"b": 1})"},
            {R"({"a": 1, "b": 1})"}},
           {R"({"type": "object", "not": {"required": ["a"]}})", {"{}", R"({"b": 1})"}, {R"({"a": 1})"}},
           {R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], "not": {"properties": {"k": {"const": "x"}}}})",
            {R"({"k": "y"})"},
            {R"({"k": "x"})"}},
           {R"({"type": "object", "properties": {"a": true, "b": true}, "not": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}})",
            {"{}"},
            {R"({"a": 1})", R"({"b": 1})"}},
           {R"({"not": {"$ref": "#/$defs/text"}, "$defs": {"text": {"type": "string"}}})", {"1"}, {"\"\""}},
           {R"({"type": "integer", "not": {"not": {"maximum": 3}}})", {"3"}, {"4"}}}),
      testing::IsEmpty());
  EXPECT_THAT(schema_error(R"({"not": {}})"), testing::HasSubstr("no text can match"));
  EXPECT_THAT(schema_error(R"({"type": "string", "not": {"type": "string", "format": "email"}})"), testing::HasSubstr("no text can match"));
  EXPECT_THAT(schema_error(R"({"not": {"$ref": "#"}})"), testing::HasSubstr("refers to itself"));
}

// Strings and numbers with the same limits share a rule; others must not.
TEST(Schema, SimilarLimitsAreNotTheSame) {
  const std::pair<const char*, std::pair<const char*, const char*>> schemas[] = {
      {R"({"type": "string", "pattern": "^x"})", {"\"xa\"", "\"ax\""}},
      {R"({"type": "string", "not": {"pattern": "^x"}})", {"\"ax\"", "\"xa\""}},
      {R"({"type": "string", "pattern": "^x", "maxLength": 1})", {"\"x\"", "\"xa\""}},
      {R"({"type": "string", "pattern": "^date$"})", {"\"date\"", "\"2024-01-01\""}},
      {R"({"type": "string", "format": "date"})", {"\"2024-01-01\"", "\"date\""}},
      {R"({"type": "integer", "minimum": 1})", {"1", "1.5"}},
      {R"({"type": "integer", "exclusiveMinimum": 1})", {"2", "1"}},
      {R"({"type": "integer", "maximum": 1})", {"0", "2"}},
      {R"({"type": "number", "minimum": 1})", {"1.5", "0.5"}}};
  std::string properties;
  for (const auto& [schema, texts] : schemas)
    properties += fmt::format("{}\"{}\": {}", properties.empty() ? "" : ", ", properties.size(), schema);
  TextReader reader = TextReader::of_schema(R"({"type": "object", "properties": {)" + properties + "}}");
  properties.clear();
  for (const auto& [schema, texts] : schemas) {
    const size_t name = properties.size();
    properties += fmt::format("{}\"{}\": {}", properties.empty() ? "" : ", ", name, schema);
    EXPECT_TRUE(reader.accepts(fmt::format("{{\"{}\":{}}}", name, texts.first))) << schema;
    EXPECT_FALSE(reader.accepts(fmt::format("{{\"{}\":{}}}", name, texts.second))) << schema;
  }
}

TEST(Schema, Conditions) {
  const char* const by_kind =
      R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["kind"],
          "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}, "else": {"required": ["y"]}})";
  EXPECT_THAT(mistakes_in({{by_kind,
                            {R"({"kind": "a", "x": 1})", R"({"kind": "b", "y": 1})", R"({"kind": "b", "x": 1, "y": 1})"},
                            {R"({"kind": "a", "y": 1})", R"({"kind": "b", "x": 1})", R"({"kind": "a"})"}},
                           {R"({"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 10}})", {"9", "10", "20"}, {"11", "25"}},
                           {R"({"type": "integer", "then": {"const": 1}, "else": {"const": 2}})", {"3"}, {"x"}}}),
              testing::IsEmpty());
}

TEST(Schema, Dependencies) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "object", "properties": {"a": true, "b": true, "c": true}, "dependencies": {"a": ["b"], "c": {"required": ["a"]}}})",
            {"{}", R"({"b": 1})", R"({"a": 1, "b": 1})", R"({"a": 1, "b": 1, "c": 1})"},
            {R"({"a": 1})", R"({"c": 1})", R"({"b": 1, "c": 1})"}},
           {R"({"type": "object", "properties": {"a": true, "b": true}, "dependentRequired": {"b": ["a"]}})",
            {"{}", R"({"a": 1})", R"({"a": 1, "b": 1})"},
            {R"({"b": 1})"}},
           {R"({"type": "object", "properties": {"a": true, "b": {"type": "integer"}}, "dependentSchemas": {"a": {"properties": {"b": {"minimum": 5}}}}})",
            {R"({"b": 1})", R"({"a": 1, "b": 5})", R"({"a": 1})"},
            {R"({"a": 1, "b": 4})"}}}),
      testing::IsEmpty());
}

TEST(Schema, OneOfHoldsExactlyOnce) {
  EXPECT_THAT(
      mistakes_in(
          {{R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
            {R"({"a": 1})", R"({"b": 1})"},
            {"{}", R"({"a": 1, "b": 1})"}},
           // Listed beside the options, or allowed by additionalProperties: what one option does not list can still be there.
           {R"({"type": "object", "properties": {"a": true, "b": true}, "oneOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}, "required": ["b"]}]})",
            {R"({"a": 1})", R"({"b": 1})"},
            {R"({"a": 1, "b": 1})"}},
           {R"({"type": "object", "additionalProperties": true, "oneOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}, "required": ["b"]}]})",
            {R"({"a": 1, "c": 2})", R"({"b": 1})"},
            {R"({"a": 1, "b": 1})"}},
           {R"({"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^x"}]})",
            {"\"abc\"", "\"xabc\""},
            {"\"xab\"", "\"abcd\""}},
           {R"({"oneOf": [{"type": "string"}, {"enum": ["a", "b", 1]}]})", {"\"c\"", "1"}, {"\"a\"", "\"b\"", "2"}},
           {R"({"type": "integer", "oneOf": [{"minimum": 0}, {"maximum": 10}]})", {"-1", "11"}, {"0", "5", "10"}},
           {R"({"type": "object", "oneOf": [{"additionalProperties": false, "properties": {"k": true}}, {"additionalProperties": false, "properties": {"l": true}}]})",
            {R"({"k": 1})", R"({"l": 1})"},
            {"{}"}},
           {R"({"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"], "oneOf": [{"required": ["k"]}, {"not": {"properties": {"k": {"const": "a"}}, "required": ["k"]}}]})",
            {R"({"k": "a"})"},
            {R"({"k": "b"})"}},
           {R"({"type": "string", "oneOf": [{"format": "uri"}, {"format": "date"}]})", {"\"2024-01-01\"", "\"a://b\""}, {"\"x\""}}}),
      testing::IsEmpty());
}

TEST(Schema, UnsupportedKeywordsAreNamedWithTheirPosition) {
  EXPECT_THAT(schema_error(R"({"properties": {"a/b": {"extends": {}}}, "type": "object"})"),
              testing::HasSubstr("/properties/a~1b: the keyword 'extends' is not supported"));
  for (const char* keyword : {"$recursiveRef", "$dynamicRef", "extends", "disallow"})
    EXPECT_THAT(schema_error(fmt::format(R"({{"{}": {{}}}})", keyword)), testing::HasSubstr(fmt::format("'{}' is not supported", keyword)));
  EXPECT_THAT(schema_error(R"({"type": "string", "maxLenght": 3})"),
              testing::HasSubstr("'maxLenght' is not supported; did you mean 'maxLength'?"));
  EXPECT_THAT(schema_error(R"({"type": "object", "additionalproperties": false})"),
              testing::HasSubstr("did you mean 'additionalProperties'?"));
  EXPECT_THAT(schema_error(R"({"type": "array", "uniqueItems": true})"), testing::HasSubstr("uniqueItems is supported only for"));
  EXPECT_THAT(schema_error(R"({"type": "string", "format": "color"})"), testing::HasSubstr("the format 'color' is not supported"));
  EXPECT_THAT(schema_error(R"x({"type": "string", "pattern": "(?=a)"})x"), testing::HasSubstr("/pattern"));
  EXPECT_THAT(schema_error(R"({"$ref": "https://example.org/x"})"), testing::HasSubstr("a reference within the schema"));
  EXPECT_THAT(schema_error(R"({"$ref": "#/$defs/x"})"), testing::HasSubstr("refers to nothing"));
  EXPECT_THAT(schema_error(R"({"$ref": "#"})"), testing::HasSubstr("refers to itself"));
  EXPECT_THAT(schema_error(R"({"type": "text"})"), testing::HasSubstr("a type was expected"));
  EXPECT_THAT(schema_error(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"), testing::HasSubstr("/oneOf: several options hold"));
  EXPECT_THAT(schema_error(R"({"type": "object", "minProperties": 2})"), testing::HasSubstr("minProperties 2 is not supported"));
  EXPECT_THAT(schema_error("[1]"), testing::HasSubstr("a schema was expected"));
  EXPECT_THAT(schema_error("{\"type\": "), testing::HasSubstr("not valid JSON"));
  EXPECT_EQ(
      schema_error(R"({"type": "integer", "title": "t", "description": "d", "default": 3, "examples": [1], "$schema": "s", "x-note": 1})"),
      "no error");
  // What no draft has as a keyword is an annotation.
  EXPECT_EQ(
      schema_error(R"({"type": "integer", "self": {"vendor": "v"}, "_format": "x", "units": "m", "propertyOrder": 3, "format": "port"})"),
      "no error");
}

TEST(Schema, ContradictionsAreNamedWithTheirPosition) {
  EXPECT_THAT(schema_error("false"), testing::HasSubstr("no text can match"));
  EXPECT_THAT(schema_error(R"({"type": "integer", "minimum": 5, "maximum": 3})"), testing::HasSubstr("no number is between"));
  EXPECT_THAT(
      schema_error(R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}, "required": ["a"]})"),
      testing::HasSubstr("/properties/a: minLength 3 is above maxLength 2"));
  EXPECT_THAT(schema_error(R"({"allOf": [{"type": "string"}, {"type": "integer"}]})"), testing::HasSubstr("no type is allowed"));
  EXPECT_THAT(schema_error(R"({"enum": ["a"], "type": "integer"})"), testing::HasSubstr("no value of enum"));
  EXPECT_THAT(
      schema_error(
          R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}})"),
      testing::HasSubstr("no text can match"));
}

TEST(Schema, HostileSchemasEndWithOneError) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"items":)";
  EXPECT_THAT(schema_error(deep), testing::HasSubstr("nested"));
  std::string wide = R"({"allOf": [)";
  for (int i = 0; i < 30; ++i) wide += std::string(i > 0 ? "," : "") + R"({"anyOf": [{"minimum": 1}, {"minLength": 2}]})";
  EXPECT_THAT(schema_error(wide + "]}"), testing::HasSubstr("combinations"));
  EXPECT_THAT(schema_error(R"({"type": "string", "minLength": 1000000000})"), testing::HasSubstr("at most"));
  std::string patterns = R"({"type": "string", "oneOf": [)";
  for (int i = 0; i < 1000; ++i) patterns += fmt::format(R"({}{{"pattern": "^{}[a-z]*$"}})", i > 0 ? "," : "", i);
  EXPECT_THAT(schema_error(patterns + "]}"), testing::HasSubstr("too many alternatives"));
  EXPECT_THAT(schema_error(R"x({"type": "string", "pattern": "^(a|b)*a(a|b){40}$"})x"), testing::HasSubstr("states"));
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 5000; ++i) chain += "\"d" + std::to_string(i) + R"(": {"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"},";
  EXPECT_THAT(schema_error(chain + R"("d5000": {}}})"), testing::HasSubstr("nested"));
  std::string names = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 20000; ++i) names += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\": {}";
  schema_error(names + "}}");  // any outcome, soon
}

}  // namespace
}  // namespace kvik::constrain
