#include "onnx/reader.h"

#include <fmt/format.h>
#include <protozero/exception.hpp>

#include "base/mapped_file.h"
#include "kvik/error.h"
#include "onnx/graph_builder.h"
#include "onnx/messages.h"

namespace kvik::onnx {
namespace {

// What people hand over instead of a model, each with its own advice; empty when nothing is recognised.
std::string_view what_it_is_instead(std::string_view bytes) {
  if (bytes.empty()) return "the file is empty; an ONNX model was expected";
  if (bytes.starts_with("version https://git-lfs")) return "this is a Git LFS pointer, not the model itself; fetch it with 'git lfs pull'";
  if (bytes.starts_with("<!DOCTYPE") || bytes.starts_with("<html")) return "this is a web page, not a model; the download went wrong";
  if (bytes.starts_with("ORTM") || (bytes.size() > 8 && bytes.substr(4, 4) == "ORTM"))
    return "this is ONNX Runtime's own .ort format; give the .onnx file it was made from";
  if (bytes.starts_with("GGUF")) return "this is a GGUF file; an ONNX model was expected";
  if (bytes.starts_with("PK\x03\x04")) return "this is a ZIP archive (a PyTorch checkpoint?); an ONNX model was expected";
  return {};
}

bool looks_like_text(std::string_view bytes) {
  for (const char c : bytes.substr(0, 256)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 9 || (byte > 13 && byte < 32)) return false;
  }
  return true;
}

void check_ir_version(int64_t ir_version, const Log& log) {
  if (ir_version < kOldestIr) {
    throw Error(Code::kBadModel,
                fmt::format("IR version {} was found; {} to {} were expected, so this is no ONNX model or one from before 2017", ir_version,
                            kOldestIr, kNewestIr));
  }
  if (ir_version > kNewestIr)
    log.warning(fmt::format("IR version {} is newer than {}, the newest known; reading it all the same", ir_version, kNewestIr));
}

Model read(std::string_view bytes, ParseContext context, const Log& log) {
  if (const std::string_view sentence = what_it_is_instead(bytes); !sentence.empty()) throw Error(Code::kBadModel, std::string(sentence));
  try {
    const ModelMessage message = parse_model(bytes, context);
    if (!message.graph) {
      throw Error(Code::kBadModel,
                  looks_like_text(bytes) ? "this is a text file; an ONNX model was expected" : "no graph was found; this is no ONNX model");
    }
    check_ir_version(message.ir_version, log);
    return build_model(message);
  } catch (const protozero::exception& e) {
    if (looks_like_text(bytes)) throw Error(Code::kBadModel, "this is a text file; an ONNX model was expected");
    throw Error(Code::kBadModel, fmt::format("not an ONNX model, or a truncated one: its {} bytes end in the middle of a field ({})",
                                             bytes.size(), e.what()));
  }
}

}  // namespace

Model read_model(const std::filesystem::path& path, const Log& log) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  ExternalData external(path.parent_path());
  const Log named([&](LogLevel level, std::string_view sentence) { log.log(level, fmt::format("{}: {}", path.string(), sentence)); });
  try {
    Model model = read(file->text(), {file, external}, named);
    model.path = path.string();
    model.files = external.files();
    model.files.insert(model.files.begin(), file);
    return model;
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", path.string(), e.what())); }
}

Model read_model(std::span<const std::byte> bytes, const Log& log) {
  ExternalData external;
  return read({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, {nullptr, external}, log);
}

Tensor read_tensor(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  ExternalData external(path.parent_path());
  ParseContext context{file, external};
  try {
    return load(parse_tensor(file->text(), context));
  } catch (const protozero::exception& e) {
    throw Error(Code::kBadModel, fmt::format("{}: not a tensor file ({})", path.string(), e.what()));
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", path.string(), e.what())); }
}

}  // namespace kvik::onnx
