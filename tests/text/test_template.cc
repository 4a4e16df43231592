#include <gtest/gtest.h>
#include <string>

#include "kvik/error.h"
#include "text/template/json.h"
#include "text/template/template.h"

namespace kvik::text::jinja {
namespace {

Moment noon() { return *parse_moment("2025-03-04T12:00:00"); }

std::string render(std::string_view source, std::string_view variables = "{}", const Limits& limits = {}) {
  const Value given = from_json(variables, "the variables");
  return Template(source).render(given.as_dict(), noon, limits);
}

// The message of the error, or "rendered: " and the text.
std::string fault(std::string_view source, std::string_view variables = "{}", const Limits& limits = {}) {
  try {
    return "rendered: " + render(source, variables, limits);
  } catch (const Error& e) { return e.what(); }
}

TEST(Template, TagsTrimWhiteSpaceAsConfigured) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a\n  {%+ if true +%}\nb{% endif %}"), "a\n  \nb");
  EXPECT_EQ(render("a \n {{- 1 -}} \n b"), "a1b");
  EXPECT_EQ(render("a {#- c -#} b{# d #}\nc"), "abc");
  EXPECT_EQ(render("  {# c #}\n x"), " x");
  EXPECT_EQ(render("{% raw %}{{ x }}\n{% endraw %}\n."), "{{ x }}\n.");
  EXPECT_EQ(render("a\r\nb\rc\n\n"), "a\nb\nc\n");
}

TEST(Template, ValuesPrintAsInPython) {
  EXPECT_EQ(render("{{ x }}", R"({"x": [null, true, 1.0, 1e16, 1e-7, -0.0, "it's", {"a": "\n\u00e9"}]})"),
            "[None, True, 1.0, 1e+16, 1e-07, -0.0, \"it's\", {'a': '\\né'}]");
  EXPECT_EQ(render("{{ (1,) }}{{ () }}{{ nope }}{{ 0.1 + 0.2 }}"), "(1,)()0.30000000000000004");
  EXPECT_EQ(render("{{ 'a\\u200bb\\x07' | list }}"), "['a', '\\u200b', 'b', '\\x07']");
}

TEST(Template, LargeIntegersAreExact) {
  const std::string digits = "123456789012345678901234567890123456789";
  EXPECT_EQ(render("{{ x }} {{ x | tojson }} {{ x + 1 - x }} {{ x // 10**30 }} {{ -x % 7 }}", "{\"x\": " + digits + "}"),
            digits + " " + digits + " 1 123456789 6");
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }} {{ 2 ** 64 - 2 ** 64 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 2 ** -1 }}"),
            "9223372036854775808 0 -4 2 0.5");
}

TEST(Template, JsonIsWrittenAsByPython) {
  EXPECT_EQ(render("{{ x | tojson }}", R"({"x": {"b": "<é\u0001\"", "a": [1.0, 1e16, null, []]}})"),
            "{\"b\": \"<é\\u0001\\\"\", \"a\": [1.0, 1e+16, null, []]}");
  EXPECT_EQ(render("{{ x | tojson(indent=2, sort_keys=true) }}", R"({"x": {"b": 1, "a": [true]}})"),
            "{\n  \"a\": [\n    true\n  ],\n  \"b\": 1\n}");
  EXPECT_EQ(render("{{ 'é😀' | tojson(ensure_ascii=true) }}{{ [1, 2] | tojson(separators=(',', ':')) }}"), "\"\\u00e9\\ud83d\\ude00\"[1,2]");
}

TEST(Template, NamesAreScopedAsInJinja) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}"), "19191");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"), "6");
  EXPECT_EQ(render("{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render("{% for i in [1] %}{{ y }}{% endfor %}{% set y = 1 %}", R"({"y": 5})"), "");  // as the reference has it
  EXPECT_EQ(render("{% macro f() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ f() }}"), "3");
}

TEST(Template, LoopVariablesHaveTheirValues) {
  EXPECT_EQ(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ "
                   "loop.nextitem }} {% endfor %}"),
            "1TrueFalse3b 2FalseFalse3ac 3FalseTrue3b ");
  EXPECT_EQ(render("{% for x in range(9) if x is odd %}{{ loop.revindex }}{{ x }}{{ loop.cycle('a', 'b') }}{% else %}none{% endfor %}"),
            "41a33b25a17b");
  EXPECT_EQ(
      render("{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
      "13");
  EXPECT_EQ(render("{% for x in t recursive %}{{ x.n }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% endfor %}",
                   R"({"t": [{"n": 1, "c": [{"n": 2}, {"n": 3}]}, {"n": 4}]})"),
            "1(23)4");
}

TEST(Template, MacrosAcceptPositionalAndNamedArguments) {
  EXPECT_EQ(render("{% macro f(a, b='x', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 2, 3, 4, "
                   "z=5) }} {{ f(b=0, a=7) }}"),
            "1x1(){} 123(4,){'z': 5} 707(){}");
  EXPECT_EQ(render("{% macro box(n) %}[{{ caller(n + 1) }}]{% endmacro %}{% call(k) box(1) %}{{ k }}{% endcall %}"), "[2]");
}

TEST(Template, FiltersDivideSequencesIntoLists) {
  const std::string rows = "[{'r': 'b', 'n': 1}, {'r': 'A', 'n': 2}, {'r': 'a', 'n': 3}, {'n': 4}]";
  EXPECT_EQ(render("{% for r, l in " + rows + "[:3]|groupby('r') %}{{ r }}{{ l|map(attribute='n')|list }}{% endfor %}"), "A[2, 3]b[1]");
  EXPECT_EQ(render("{% for g in " + rows + "|groupby('r', default='c') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %}"),
            "A2Ab1bc1c");
  EXPECT_EQ(render("{{ " + rows + "[:3]|groupby('r', case_sensitive=true)|map('first')|list }}"), "['A', 'a', 'b']");
  EXPECT_EQ(render("{{ [[1], [2], [1]]|groupby(0) }}"), "[(1, [[1], [1]]), (2, [[2]])]");
  EXPECT_EQ(render("{{ range(5)|batch(2)|list }}{{ range(5)|batch(3, 'x')|list }}"), "[[0, 1], [2, 3], [4]][[0, 1, 2], [3, 4, 'x']]");
  EXPECT_EQ(render("{{ range(5)|slice(3)|list }}{{ range(5)|slice(3, 'x')|list }}{{ []|slice(2)|list }}"),
            "[[0, 1], [2, 3], [4]][[0, 1], [2, 3], [4, 'x']][[], []]");
}

TEST(Template, UndefinedPrintsNothingAndFailsInOperators) {
  EXPECT_EQ(render("{{ x }}{{ x | length }}{% for i in x %}{% endfor %}{{ 'a' in x }}{{ x == y }}{{ messages[3] }}", R"({"messages": []})"),
            "0FalseTrue");
  EXPECT_EQ(fault("\n{{ x + 1 }}"), "template line 2: 'x' is undefined");
  EXPECT_EQ(fault("{{ m.content.x }}", R"({"m": {}})"), "template line 1: 'dict object' has no attribute 'content'");
}

TEST(Template, RaiseExceptionGivesTheWholeMessage) {
  EXPECT_EQ(fault("{{ raise_exception('Only once, ' ~ 'please!') }}"), "Only once, please!");
}

TEST(Template, InputValuesCannotBeModified) {
  EXPECT_NE(fault("{{ x.append(1) }}", R"({"x": []})").find("unsafe"), std::string::npos);
  EXPECT_NE(fault("{{ x.update({}) }}", R"({"x": {}})").find("unsafe"), std::string::npos);
  EXPECT_NE(fault("{{ ''.__class__.__mro__ }}").find("unsafe"), std::string::npos);
  EXPECT_EQ(render("{{ x.pop is defined }}{{ x.items is defined }}", R"({"x": {"pop": 1}})"), "FalseTrue");
}

TEST(Template, TheCallerSetsTheClock) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %A %j %H:%M é%%') }}"), "04 Mar 2025 Tuesday 063 12:00 é%");
}

TEST(Template, MomentIsParsedFromDateAndTime) {
  EXPECT_EQ(parse_moment("2025-03-04")->local.tm_yday, 62);
  EXPECT_EQ(parse_moment("2025-03-04")->local.tm_hour, 0);
  EXPECT_EQ(parse_moment("2025-03-04 15:09")->local.tm_min, 9);
  EXPECT_EQ(parse_moment("2025-03-04T15:09:26.5+01:00")->local.tm_sec, 26);
  EXPECT_EQ(parse_moment("2025-03-04T15:09:26.5+01:00")->microseconds, 500'000);
  for (const char* text : {"", "2025", "2025-13-01", "2025-03-04x", "2025-03-04T", "2025-03-04T25:00", "2025-03-04T15:09:", "-2025-03-04"})
    EXPECT_FALSE(parse_moment(text)) << text;
}

TEST(Template, SyntaxErrorsHaveALine) {
  for (const char* source : {"\n{% if x %}", "\n{{ x", "\n{{ 'x }}", "\n{% frob %}", "\n{{ x | nofilter }}", "\n{{ x is notest }}",
                             "\n{# x", "\n{{ ( }}", "\n{% break %}", "\n{% include 'x' %}", "\n{% for loop in x %}{% endfor %}",
                             "\n{{ f(a=1, a=2) }}", "\n{% set 1 = 2 %}", "\n{% raw %}"}) {
    EXPECT_EQ(fault(source).substr(0, 16), "template line 2:") << source;
  }
}

TEST(Template, LoopsRecursionAndGrowthAreLimited) {
  const Limits small{.steps = 200'000, .memory_bytes = 1 << 20, .output_bytes = 1 << 16, .call_depth = 50};
  for (const char* source : {
           "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
           "{% for i in range(100000) %}{{ 'abcdefgh' }}{% endfor %}",
           "{{ range(100001) }}",
           "{{ 'x' * 100000000000 }}",
           "{{ [0] * 100000000000 }}",
           "{{ 10 ** 100000000000 }}",
           "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% "
           "endfor %}{{ ns.x == ns.y }}",
           "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '{:>1000000000}'.format(1) }}",
           "{{ 'a\\nb' | indent(1000000000) }}",
           "{{ 'aaaa' | replace('', 'x' * 500000) }}",
           "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}",
       }) {
    EXPECT_NE(fault(source, "{}", small).substr(0, 9), "rendered:") << source;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "(";
  EXPECT_NE(fault("{{ " + deep).find("nested too deeply"), std::string::npos);
  std::string tall = "{% macro f() %}{{ ";
  for (int i = 0; i < 150; ++i) tall += "1 + (";
  tall += "f()" + std::string(150, ')') + " }}{% endmacro %}{{ f() }}";
  EXPECT_NE(fault(tall, "{}", {.call_depth = 100000}).find("deep"), std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 100000; ++i) chain += " + 1";
  EXPECT_NE(fault(chain + " }}").find("nested too deeply"), std::string::npos);
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
  EXPECT_NE(fault(blocks).find("nested too deeply"), std::string::npos);
}

TEST(Template, JsonInputIsBoundedAndRepaired) {
  EXPECT_EQ(render("{{ x }}", "{\"x\": \"a\xff\xe2\x82z\"}"), "a\uFFFD\uFFFDz");
  EXPECT_THROW(from_json(std::string(100000, '['), "x"), Error);
  EXPECT_THROW(from_json("{\"a\": }", "x"), Error);
  EXPECT_EQ(render("{% for k in x %}{{ k }}={{ x[k] }} {% endfor %}", R"({"x": {"z": 1, "a": 2, "z": 3}})"), "z=3 a=2 ");
}

}  // namespace
}  // namespace kvik::text::jinja
