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

// Those of Python's pydantic. Networks of one address, because any other has bits that must be 0.
std::string ip_with(std::string_view ipv4_tail, std::string_view ipv6_tail) {
  return fmt::format("(?:{}){}|(?:{}){}", kIpv4, ipv4_tail, kIpv6, ipv6_tail);
}
std::optional<std::string> pydantic_pattern(std::string_view format) {
  constexpr std::string_view kIpv4Mask = "(?:/(?:[12]?[0-9]|3[0-2]))?", kIpv6Mask = "(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?";
  if (format == "base64") return std::string(kBase64);
  if (format == "base64url") return R"((?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?)";
  if (format == "name-email") return std::string(kEmail);
  if (format == "ipvanyaddress") return ip_with("", "");
  if (format == "ipvanyinterface") return ip_with(kIpv4Mask, kIpv6Mask);
  if (format == "ipvanynetwork") return ip_with("/32", "/128");
  if (format == "ipv4interface") return fmt::format("(?:{}){}", kIpv4, kIpv4Mask);
  if (format == "ipv6interface") return fmt::format("(?:{}){}", kIpv6, kIpv6Mask);
  if (format == "ipv4network") return fmt::format("(?:{})/32", kIpv4);
  if (format == "ipv6network") return fmt::format("(?:{})/128", kIpv6);
  const bool has_version = format.size() == 5 && format.starts_with("uuid") && format[4] >= '1' && format[4] <= '8';
  if (!has_version) return std::nullopt;
  return fmt::format("[0-9A-Fa-f]{{8}}-[0-9A-Fa-f]{{4}}-{}[0-9A-Fa-f]{{3}}-[89ABab][0-9A-Fa-f]{{3}}-[0-9A-Fa-f]{{12}}", format[4]);
}

std::string uri_tail() { return fmt::format(R"((?:\?(?:{}|\?)*)?(?:#(?:{}|\?)*)?)", kUriPart, kUriPart); }
// Hosts that are read as addresses must be some; labels of any length have few states, which those of a maximal length multiply.
std::string uri() {
  return fmt::format(R"([a-z][a-z0-9+.-]{{0,15}}://(?:(?:[A-Za-z0-9]+[.-])*[A-Za-z][A-Za-z0-9]*|{})(?::[1-9][0-9]{{0,3}})?(?:/{}*)?{})",
                     kIpv4, kUriPart, uri_tail());
}

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
  if (format == "uri" || format == "iri" || format == "url" || format == "multi-host-uri") return uri();
  if (format == "uri-reference" || format == "iri-reference")
    return fmt::format("(?:{}|(?:/?[A-Za-z0-9._~-]{{1,64}}(?:/[A-Za-z0-9._~-]{{1,64}})*/?)?{})", uri(), uri_tail());
  if (format == "uri-template") return fmt::format(R"({}(?:/\{{[A-Za-z_][A-Za-z0-9_]{{0,31}}\}})*)", uri());
  if (format == "json-pointer") return std::string(kJsonPointer);
  if (format == "relative-json-pointer") return fmt::format("(?:0|[1-9][0-9]{{0,8}})(?:#|{})", kJsonPointer);
  if (format == "byte") return std::string(kBase64);
  if (format == "regex") return std::string(kRegex);
  return pydantic_pattern(format);
}

std::string supported_formats() {
  return "date, time, date-time, duration, email, idn-email, hostname, idn-hostname, uuid, ipv4, ipv6, uri, url, uri-reference, "
         "uri-template, iri, iri-reference, json-pointer, relative-json-pointer, regex, byte, base64, base64url, int32 and those of "
         "pydantic";
}

bool is_annotation_format(std::string_view format) {
  constexpr std::string_view kFormats[] = {"int64", "float", "double", "binary", "password", "path", "file-path", "directory-path"};
  return std::ranges::find(kFormats, format) != std::ranges::end(kFormats);
}

}  // namespace kvik::constrain
