#include "hub/external_names.h"

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

#include "base/mapped_file.h"
#include "kvik/error.h"

namespace kvik::hub {
namespace {

constexpr int kMostNesting = 64;

// Messages of onnx.proto and the fields of each that lead to tensors.
enum class Message { kModel, kGraph, kFunction, kNode, kAttribute, kSparseTensor, kTensor };

struct Field {
  Message in;
  uint32_t tag;
  Message is;
};
constexpr Field kFields[] = {{Message::kModel, 7, Message::kGraph},         {Message::kModel, 25, Message::kFunction},
                             {Message::kGraph, 1, Message::kNode},          {Message::kGraph, 5, Message::kTensor},
                             {Message::kGraph, 15, Message::kSparseTensor}, {Message::kFunction, 7, Message::kNode},
                             {Message::kNode, 5, Message::kAttribute},      {Message::kAttribute, 5, Message::kTensor},
                             {Message::kAttribute, 6, Message::kGraph},     {Message::kAttribute, 10, Message::kTensor},
                             {Message::kAttribute, 11, Message::kGraph},    {Message::kSparseTensor, 1, Message::kTensor},
                             {Message::kSparseTensor, 2, Message::kTensor}};
constexpr uint32_t kExternalData = 13;  // of a tensor: entries with a key (1) and a value (2)

void collect(protozero::pbf_reader message, Message kind, int depth, std::set<std::string>& names) {
  if (depth > kMostNesting) throw Error(Code::kBadModel, fmt::format("it is nested more than {} levels deep", kMostNesting));
  while (message.next()) {
    const bool has_length = message.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (kind == Message::kTensor && has_length && message.tag() == kExternalData) {
      protozero::pbf_reader entry = message.get_message();
      std::string key, value;
      while (entry.next()) {
        if (entry.tag() == 1)
          key = entry.get_string();
        else if (entry.tag() == 2)
          value = entry.get_string();
        else
          entry.skip();
      }
      if (key == "location") names.insert(value);
      continue;
    }
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      if (has_length && field.in == kind && field.tag == message.tag()) found = &field;
    }
    if (found == nullptr) {
      message.skip();
    } else {
      collect(message.get_message(), found->is, depth + 1, names);
    }
  }
}

}  // namespace

std::set<std::string> external_names(const std::filesystem::path& graph) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(graph);
  std::set<std::string> names;
  try {
    collect(protozero::pbf_reader(file->text().data(), file->size_bytes()), Message::kModel, 0, names);
  } catch (const protozero::exception& e) {
    throw Error(Code::kBadModel, fmt::format("{}: it is not an ONNX file ({})", graph.string(), e.what()));
  }
  return names;
}

}  // namespace kvik::hub
