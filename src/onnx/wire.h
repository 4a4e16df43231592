#pragma once

#include <fmt/format.h>

#include "base/protobuf.h"
#include "kvik/error.h"

namespace kvik::onnx {

using protobuf::bytes_of;
using protobuf::kBytes;
using protobuf::kFixed32;
using protobuf::kFixed64;
using protobuf::kVarint;
using protobuf::message_of;

// Checks the wire type of a field before its value is read (a list of numbers may also be packed): protozero only asserts it.
template <class Reader>
void require_wire_type(const Reader& reader, protobuf::pbf_wire_type wanted, bool may_be_packed = false) {
  const protobuf::pbf_wire_type found = reader.wire_type();
  if (found == wanted || (may_be_packed && found == kBytes)) return;
  throw Error(Code::kBadModel, fmt::format("field {} has wire type {}; expected {}; this is not an ONNX model, or it is damaged",
                                           static_cast<uint32_t>(reader.tag()), static_cast<int>(found), static_cast<int>(wanted)));
}

}  // namespace kvik::onnx
