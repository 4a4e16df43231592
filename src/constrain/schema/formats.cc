#include "constrain/schema/formats.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::constrain {
namespace {

// Days that exist; years from 0001 on, as validators have them.
constexpr std::string_view kDate =
    R"((?:(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29))";
constexpr std::string_view kTime =
    R"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))";
constexpr std::string_view kDuration =
    R"(P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)))";
constexpr std::string_view kHostname =
    R"([A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?){0,5})";
constexpr std::string_view kEmail =
    R"([A-Za-z0-9_%+-]{1,32}(?:\.[A-Za-z0-9_%+-]{1,16}){0,3}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){1,4}[A-Za-z]{2,12})";
constexpr std::string_view kUuid = R"([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})";
constexpr std::string_view kIpv4 = R"((?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3})";
constexpr std::string_view kIpv6 =
    R"((?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,5})?|[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,4})?|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){1}::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,3})?|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){2}::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,2})?|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){3}::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4})?)?|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){4}::[0-9A-Fa-f]{1,4})";

// Characters of a path, a query or a fragment.
constexpr std::string_view kUriPart = R"((?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}))";
constexpr std::string_view kJsonPointer = R"((?:/(?:[^~/]|~[01])*)*)";
constexpr std::string_view kBase64 = R"((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)";
// Some of them: characters, classes and escapes, repeated or not.
constexpr std::string_view kRegex =
    R"(\^?(?:(?:[A-Za-z0-9_ ,:;/@#%&=!<>"'~-]|\\[dws.*+?()\[\]{}|^$\\]|\[(?:a-z|A-Z|0-9|_){1,4}\]|\.)(?:[*+?]|\{[1-9]\})?)*\$?)";

std::string uri_tail() { return fmt::format(R"((?:\?(?:{}|\?)*)?(?:#(?:{}|\?)*)?)", kUriPart, kUriPart); }
std::string uri() { return fmt::format(R"([a-z][a-z0-9+.-]{{0,15}}://{}(?::[0-9]{{1,5}})?(?:/{}*)?{})", kHostname, kUriPart, uri_tail()); }

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  if (format == "date") return std::string(kDate);
  if (format == "time") return std::string(kTime);
  if (format == "date-time") return fmt::format("{}T{}", kDate, kTime);
  if (format == "duration") return std::string(kDuration);
  if (format == "email" || format == "idn-email") return std::string(kEmail);
  if (format == "hostname" || format == "idn-hostname") return std::string(kHostname);
  if (format == "uuid") return std::string(kUuid);
  if (format == "ipv4") return std::string(kIpv4);
  if (format == "ipv6") return std::string(kIpv6);
  if (format == "uri" || format == "iri" || format == "url") return uri();
  if (format == "uri-reference" || format == "iri-reference")
    return fmt::format("(?:{}|(?:/?[A-Za-z0-9._~-]{{1,64}}(?:/[A-Za-z0-9._~-]{{1,64}})*/?)?{})", uri(), uri_tail());
  if (format == "uri-template") return fmt::format(R"({}(?:/\{{[A-Za-z_][A-Za-z0-9_]{{0,31}}\}})*)", uri());
  if (format == "json-pointer") return std::string(kJsonPointer);
  if (format == "relative-json-pointer") return fmt::format("(?:0|[1-9][0-9]{{0,8}})(?:#|{})", kJsonPointer);
  if (format == "byte") return std::string(kBase64);
  if (format == "regex") return std::string(kRegex);
  return std::nullopt;
}

std::string supported_formats() {
  return "date, time, date-time, duration, email, idn-email, hostname, idn-hostname, uuid, ipv4, ipv6, uri, url, uri-reference, "
         "uri-template, iri, iri-reference, json-pointer, relative-json-pointer, regex, byte, int32";
}

bool is_annotation_format(std::string_view format) {
  constexpr std::string_view kFormats[] = {"int64", "float", "double", "binary", "password"};
  return std::ranges::find(kFormats, format) != std::ranges::end(kFormats);
}

}  // namespace kvik::constrain
