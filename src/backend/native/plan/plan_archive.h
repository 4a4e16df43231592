#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/native/plan/plan_file.h"

// The binary format of a plan is described once, in plan_fields.h; PlanWriter and PlanReader both use that description. Numbers are
// little-endian and of fixed size.
namespace kvik::native {

// The tensors of a model's files, in an order that depends only on the graph.
class ModelTensors {
 public:
  explicit ModelTensors(std::span<const PlanModel> models);

  struct Place {
    uint32_t file = 0, number = 0;
  };
  std::optional<Place> find(const onnx::TensorData& data) const;  // the same elements, in the model's file
  const onnx::TensorData* at(const Place& place) const;           // null: there is none
  std::span<const PlanModel> models() const { return models_; }

 private:
  std::span<const PlanModel> models_;
  std::vector<std::vector<const onnx::TensorData*>> tensors_;
  std::multimap<const void*, Place> places_;  // by address
};

class PlanWriter {
 public:
  static constexpr bool kReads = false;
  explicit PlanWriter(const ModelTensors& tensors) : tensors_(tensors) {}

  std::string take() { return std::move(bytes_); }
  const ModelTensors& tensors() const { return tensors_; }

  template <class T>
  void number(T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void enumeration(T& value, T) {
    auto stored = static_cast<uint8_t>(value);
    number(stored);
  }
  void flag(bool value) {
    uint8_t stored = value ? 1 : 0;
    number(stored);
  }
  void flag(bool& value, int) { flag(value); }
  void text(std::string& value) { text_view(value); }
  void text_view(std::string_view value) {
    auto size = static_cast<uint64_t>(value.size());
    number(size);
    append(std::as_bytes(std::span(value)));
  }
  void append(std::span<const std::byte> bytes) { bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

 private:
  const ModelTensors& tensors_;
  std::string bytes_;
};

class PlanReader {
 public:
  static constexpr bool kReads = true;
  PlanReader(std::span<const std::byte> bytes, const ModelTensors& tensors, std::string_view name)
      : bytes_(bytes), tensors_(tensors), name_(name) {}

  const ModelTensors& tensors() const { return tensors_; }
  bool at_end() const { return bytes_.empty(); }
  [[noreturn]] void fail(std::string_view why) const;

  template <class T>
  void number(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  template <class T>
  void enumeration(T& value, T last) {
    uint8_t stored = 0;
    number(stored);
    if (stored > static_cast<uint8_t>(last)) fail("it holds a number that no enumeration has");
    value = static_cast<T>(stored);
  }
  void flag(bool& value, int) {
    uint8_t stored = 0;
    number(stored);
    value = stored != 0;
  }
  void text(std::string& value) {
    const std::span<const std::byte> from = take(count());
    value.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  // Counts elements of at least one byte each: never more than the remaining bytes.
  size_t count() {
    uint64_t n = 0;
    number(n);
    if (n > bytes_.size()) fail("it ends before its contents do");
    return static_cast<size_t>(n);
  }
  std::span<const std::byte> take(size_t n) {
    if (n > bytes_.size()) fail("it ends before its contents do");
    const std::span<const std::byte> taken = bytes_.first(n);
    bytes_ = bytes_.subspan(n);
    return taken;
  }
  // Subgraphs in subgraphs.
  struct Depth {
    explicit Depth(PlanReader& reader) : of(reader) {
      if (++of.depth_ > 16) of.fail("its subgraphs are nested too deep");
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --of.depth_; }
    PlanReader& of;
  };

 private:
  std::span<const std::byte> bytes_;
  const ModelTensors& tensors_;
  std::string_view name_;
  int depth_ = 0;
};

}  // namespace kvik::native
