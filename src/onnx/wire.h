#pragma once

#include <fmt/format.h>
#include <protozero/pbf_message.hpp>
#include <string_view>

#include "kvik/error.h"

namespace kvik::onnx {

// protozero's view as the standard one: both are a pointer and a length into the mapped file.
inline std::string_view view_of(const protozero::data_view& data) { return {data.data(), data.size()}; }

template <class Field>
protozero::pbf_message<Field> message_of(std::string_view bytes) {
  return protozero::pbf_message<Field>(bytes.data(), bytes.size());
}

// For a field whose value is about to be taken as of wire type `wanted` (or, for lists of numbers, as a packed list): protozero
// only asserts that it is so.
template <class Reader>
void require_wire_type(const Reader& reader, protozero::pbf_wire_type wanted, bool may_be_packed = false) {
  const protozero::pbf_wire_type found = reader.wire_type();
  if (found == wanted || (may_be_packed && found == protozero::pbf_wire_type::length_delimited)) return;
  throw Error(Code::kBadModel, fmt::format("field {} is stored as wire type {}; {} was expected, so this is no ONNX model or a damaged one",
                                           static_cast<uint32_t>(reader.tag()), static_cast<int>(found), static_cast<int>(wanted)));
}

}  // namespace kvik::onnx
