#include "onnx/reader.h"

#include <fmt/format.h>
#include <protozero/exception.hpp>

#include "base/mapped_file.h"
#include "kvik/error.h"
#include "onnx/graph_builder.h"
#include "onnx/messages.h"

namespace kvik::onnx {
namespace {

// Files that users mistake for a model, each with its own advice; empty if nothing is recognized.
std::string_view wrong_kind_of_file(std::string_view bytes) {
  if (bytes.empty()) return "the file is empty; expected an ONNX model";
  if (bytes.starts_with("version https://git-lfs")) return "this is a Git LFS pointer, not the model itself; fetch it with 'git lfs pull'";
  if (bytes.starts_with("<!DOCTYPE") || bytes.starts_with("<html")) return "this is a web page, not a model; the download failed";
  if (bytes.starts_with("ORTM") || (bytes.size() > 8 && bytes.substr(4, 4) == "ORTM"))
    return "this is a file in ONNX Runtime's .ort format; use the .onnx file it was converted from";
  if (bytes.starts_with("GGUF")) return "this is a GGUF file; expected an ONNX model";
  if (bytes.starts_with("PK\x03\x04")) return "this is a ZIP archive (a PyTorch checkpoint?); expected an ONNX model";
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
    throw Error(Code::kBadModel, fmt::format("IR version {}; expected {} to {}; this is not an ONNX model, or one from before 2017",
                                             ir_version, kOldestIr, kNewestIr));
  }
  if (ir_version > kNewestIr)
    log.warning(fmt::format("IR version {} is newer than {}, the newest supported one; trying to read it", ir_version, kNewestIr));
}

Model read(std::string_view bytes, ParseContext context, const Log& log) {
  if (const std::string_view message = wrong_kind_of_file(bytes); !message.empty()) throw Error(Code::kBadModel, std::string(message));
  try {
    const ModelMessage message = parse_model(bytes, context);
    if (!message.graph) {
      throw Error(Code::kBadModel,
                  looks_like_text(bytes) ? "this is a text file; expected an ONNX model" : "no graph was found; this is not an ONNX model");
    }
    check_ir_version(message.ir_version, log);
    return build_model(message);
  } catch (const protozero::exception& e) {
    if (looks_like_text(bytes)) throw Error(Code::kBadModel, "this is a text file; expected an ONNX model");
    throw Error(Code::kBadModel,
                fmt::format("not an ONNX model, or truncated: its {} bytes end inside a field ({})", bytes.size(), e.what()));
  }
}

}  // namespace

Model read_model(const std::filesystem::path& path, const Log& log) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  ExternalData external(path.parent_path());
  const Log named([&](LogLevel level, std::string_view message) { log.log(level, fmt::format("{}: {}", path.string(), message)); });
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
