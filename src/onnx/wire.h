#pragma once

#include <protozero/pbf_message.hpp>
#include <string_view>

namespace kvik::onnx {

// protozero's view as the standard one: both are a pointer and a length into the mapped file.
inline std::string_view view_of(const protozero::data_view& data) { return {data.data(), data.size()}; }

template <class Field>
protozero::pbf_message<Field> message_of(std::string_view bytes) {
  return protozero::pbf_message<Field>(bytes.data(), bytes.size());
}

}  // namespace kvik::onnx
