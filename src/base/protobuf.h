#pragma once

#include <protozero/pbf_message.hpp>
#include <string_view>

// Reads protobuf messages in place.
namespace kvik::protobuf {

using protozero::pbf_tag_type;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

inline constexpr pbf_wire_type kVarint = pbf_wire_type::varint;
inline constexpr pbf_wire_type kFixed32 = pbf_wire_type::fixed32;
inline constexpr pbf_wire_type kFixed64 = pbf_wire_type::fixed64;
inline constexpr pbf_wire_type kBytes = pbf_wire_type::length_delimited;  // strings, messages and packed lists

// Field: an enumeration of the message's field numbers. The bytes must outlive the result.
template <class Field>
protozero::pbf_message<Field> message_of(std::string_view bytes) {
  return protozero::pbf_message<Field>(bytes.data(), bytes.size());
}

// The current field, which must be of the type kBytes.
template <class Message>
std::string_view bytes_of(Message& message) {
  const protozero::data_view bytes = message.get_view();
  return {bytes.data(), bytes.size()};
}

}  // namespace kvik::protobuf
