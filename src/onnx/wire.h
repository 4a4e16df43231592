#pragma once

#include <fmt/format.h>
#include <protozero/pbf_message.hpp>
#include <string_view>

#include "kvik/error.h"

namespace kvik::onnx {

inline std::string_view view_of(const protozero::data_view& data) { return {data.data(), data.size()}; }

template <class Field>
protozero::pbf_message<Field> message_of(std::string_view bytes) {
  return protozero::pbf_message<Field>(bytes.data(), bytes.size());
}

// Checks the wire type of a field before its value is read (a list of numbers may also be packed): protozero only asserts it.
template <class Reader>
void require_wire_type(const Reader& reader, protozero::pbf_wire_type wanted, bool may_be_packed = false) {
  const protozero::pbf_wire_type found = reader.wire_type();
  if (found == wanted || (may_be_packed && found == protozero::pbf_wire_type::length_delimited)) return;
  throw Error(Code::kBadModel, fmt::format("field {} has wire type {}; expected {}; this is not an ONNX model, or it is damaged",
                                           static_cast<uint32_t>(reader.tag()), static_cast<int>(found), static_cast<int>(wanted)));
}

}  // namespace kvik::onnx
