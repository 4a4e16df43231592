#include <algorithm>
#include <fmt/format.h>

#include "backend/native/plan/plan_fields.h"

// How a plan's file refers to the model's tensors, and how it holds the few that are its own.
namespace kvik::native {
namespace {

using onnx::TensorData;

enum class Stored : uint8_t { kNothing, kInModel, kHere };

void collect(const onnx::Graph& graph, std::vector<const TensorData*>& tensors) {
  for (const TensorData& data : graph.initializers) tensors.push_back(&data);
  for (const onnx::Node& node : graph.nodes) {
    for (const onnx::Attribute& attribute : node.attributes) {
      if (const auto* one = std::get_if<TensorData>(&attribute.data)) tensors.push_back(one);
      if (const auto* many = std::get_if<std::vector<TensorData>>(&attribute.data)) {
        for (const TensorData& data : *many) tensors.push_back(&data);
      }
      if (const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data)) collect(**inner, tensors);
      if (const auto* inners = std::get_if<std::vector<std::shared_ptr<const onnx::Graph>>>(&attribute.data)) {
        for (const std::shared_ptr<const onnx::Graph>& inner : *inners) collect(*inner, tensors);
      }
    }
  }
}

// Shape and type, then the bytes.
void write_bytes(PlanWriter& a, DType dtype, Dims dims, std::span<const std::byte> bytes) {
  if (bits_per_element(dtype) == 0)
    throw Error(Code::kUnsupported, fmt::format("a constant of {} cannot be written to a plan's file", dtype_name(dtype)));
  fields(a, dtype, dims);
  a.append(bytes);
}

Tensor read_bytes(PlanReader& a) {
  DType dtype = DType::kUndefined;
  Dims dims;
  fields(a, dtype, dims);
  const std::optional<int64_t> n = checked_elements(dims);
  if (!n || bits_per_element(dtype) == 0) a.fail("it holds a tensor that cannot be");
  const std::span<const std::byte> bytes = a.take(storage_bytes(dtype, *n));
  Tensor tensor(dtype, std::move(dims));
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  if (dtype == DType::kBool) {
    for (std::byte& flag : tensor.mutable_bytes()) flag = flag == std::byte{0} ? flag : std::byte{1};
  }
  return tensor;
}

const TensorData& read_place(PlanReader& a) {
  ModelTensors::Place place;
  a.number(place.file);
  a.number(place.number);
  const TensorData* data = a.tensors().at(place);
  if (data == nullptr) a.fail("it names a tensor that the model does not have");
  return *data;
}

void write_place(PlanWriter& a, ModelTensors::Place place) {
  a.number(place.file);
  a.number(place.number);
}

void write_stored(PlanWriter& a, Stored stored) { a.enumeration(stored, Stored::kHere); }

Stored read_stored(PlanReader& a) {
  Stored stored = Stored::kNothing;
  a.enumeration(stored, Stored::kHere);
  return stored;
}

}  // namespace

ModelTensors::ModelTensors(std::span<const PlanModel> models) : models_(models) {
  for (size_t file = 0; file < models.size(); ++file) {
    std::vector<const TensorData*>& tensors = tensors_.emplace_back();
    collect(*models[file].model->graph, tensors);
    for (size_t i = 0; i < tensors.size(); ++i)
      places_.emplace(tensors[i]->stored.data(), Place{static_cast<uint32_t>(file), static_cast<uint32_t>(i)});
  }
}

std::optional<ModelTensors::Place> ModelTensors::find(const TensorData& data) const {
  const auto [first, last] = places_.equal_range(data.stored.data());
  for (auto it = first; it != last; ++it) {
    const TensorData& here = *at(it->second);
    if (here.dtype == data.dtype && here.dims == data.dims && here.form == data.form && here.stored.size() == data.stored.size())
      return it->second;
  }
  return std::nullopt;
}

const TensorData* ModelTensors::at(const Place& place) const {
  const bool known = place.file < tensors_.size() && place.number < tensors_[place.file].size();
  return known ? tensors_[place.file][place.number] : nullptr;
}

void tensor_field(PlanWriter& a, Tensor& tensor) {
  if (!tensor.defined()) return write_stored(a, Stored::kNothing);
  const std::optional<ModelTensors::Place> place =
      bits_per_element(tensor.dtype()) == 0 ? std::nullopt : a.tensors().find(stored_in_memory(tensor));
  write_stored(a, place ? Stored::kInModel : Stored::kHere);
  if (place) return write_place(a, *place);
  if (bits_per_element(tensor.dtype()) == 0) write_bytes(a, tensor.dtype(), tensor.dims(), {});
  write_bytes(a, tensor.dtype(), tensor.dims(), tensor.bytes());
}

void tensor_field(PlanReader& a, Tensor& tensor) {
  switch (read_stored(a)) {
    case Stored::kNothing: tensor = Tensor(); break;
    case Stored::kInModel: tensor = onnx::load(read_place(a)); break;
    case Stored::kHere: tensor = read_bytes(a); break;
  }
}

void data_field(PlanWriter& a, TensorData& data) {
  if (data.dtype == DType::kUndefined) return write_stored(a, Stored::kNothing);
  const std::optional<ModelTensors::Place> place = a.tensors().find(data);
  write_stored(a, place ? Stored::kInModel : Stored::kHere);
  if (place) return write_place(a, *place);
  const Tensor tensor = onnx::load(data);
  write_bytes(a, tensor.dtype(), tensor.dims(), bits_per_element(tensor.dtype()) == 0 ? std::span<const std::byte>() : tensor.bytes());
}

void data_field(PlanReader& a, TensorData& data) {
  switch (read_stored(a)) {
    case Stored::kNothing: data = TensorData(); break;
    case Stored::kInModel: data = without_names(read_place(a)); break;
    case Stored::kHere: data = stored_in_memory(read_bytes(a)); break;
  }
}

void file_field(PlanWriter& a, std::string& file) {
  const auto models = a.tensors().models();
  const auto found = std::ranges::find(models, file, &PlanModel::path);
  if (found == models.end()) throw Error(Code::kInternal, fmt::format("a plan of '{}' was written for another model", file));
  auto index = static_cast<uint32_t>(found - models.begin());
  a.number(index);
}

void file_field(PlanReader& a, std::string& file) {
  uint32_t index = 0;
  a.number(index);
  if (index >= a.tensors().models().size()) a.fail("it names a file that the model does not have");
  file = a.tensors().models()[index].path;
}

}  // namespace kvik::native
