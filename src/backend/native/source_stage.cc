#include "backend/native/source_stage.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/graph/encoder_feeds.h"
#include "backend/graph/feeds.h"
#include "backend/graph/slots.h"
#include "backend/native/execute/cpu/cpu_runner.h"
#include "backend/native/execute/device/device_runner.h"
#include "backend/native/graph/outcome.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

using analysis::Role;

// The encoder's output that a source input of the decoder is made from.
std::string encoder_output_for(const analysis::Signature& signature, const analysis::File& decoder, int port) {
  const analysis::File& encoder = *signature.encoder();
  if (static_cast<size_t>(port) >= decoder.inputs.size())
    throw Error(Code::kBadArgument, "the plan reads an input that the decoder does not have");
  if (decoder.inputs[static_cast<size_t>(port)].role == Role::kEncoderHiddenStates) {
    if (const analysis::Port* hidden = encoder.output_of(Role::kHiddenStates)) return hidden->name;
  }
  for (const backend::Slot& slot : backend::find_slots(signature).cross) {
    const bool first = &decoder == signature.first_step() && slot.first_input == port;
    const bool later = &decoder == signature.later_step() && slot.later_input == port;
    if ((first || later) && slot.encoder_output >= 0) return encoder.outputs[static_cast<size_t>(slot.encoder_output)].name;
  }
  throw Error(Code::kUnsupported,
              fmt::format("the decoder's input '{}' is not an output of the encoder", decoder.inputs[static_cast<size_t>(port)].name));
}

// The file that a plan was compiled from.
const analysis::File& file_of(const analysis::Signature& signature, const Plan& plan) {
  for (const analysis::File& file : signature.files) {
    if (file.path.string() == plan.file) return file;
  }
  throw Error(Code::kInternal, fmt::format("the plan of '{}' is for a file that the model does not have", plan.file));
}

// [positions][the other axes], of a tensor with one source.
Tensor by_position(const Tensor& tensor, int axis) {
  const Tensor floats = backend::cast_float(tensor, DType::kF32);
  const std::span<const int64_t> dims = floats.dims();
  if (static_cast<size_t>(axis) >= dims.size())
    throw Error(Code::kBadModel,
                fmt::format("the encoder outputs a tensor of {} axes; positions were expected along axis {}", dims.size(), axis));
  const auto at = static_cast<size_t>(axis);
  const int64_t outer = element_count(dims.first(at)), n = dims[at], inner = element_count(dims.subspan(at + 1));
  Tensor result(DType::kF32, {n, outer * inner});
  float* to = result.mutable_data<float>().data();
  const float* from = floats.data<float>().data();
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t o = 0; o < outer; ++o) std::copy_n(from + (o * n + p) * inner, inner, to + (p * outer + o) * inner);
  }
  return result;
}

}  // namespace

std::vector<LoadedWeight> RunnerFactory::weights_of(const std::shared_ptr<const Plan>& plan) const {
  for (size_t i = 0; compiled != nullptr && i < compiled->weights.size(); ++i) {
    if (compiled->saved.plans[i] == plan) return std::move(compiled->weights[i]);
  }
  return load_weights(*plan, weights, *pool, log);
}

std::unique_ptr<Runner> RunnerFactory::operator()(std::shared_ptr<const Plan> plan) const {
  if (device != nullptr) {
    DeviceRunner::Parts parts;
    parts.weights = load_device_weights(*plan, weights, device, *pool, log);
    parts.plan = std::move(plan);
    parts.kv_format = kv_format;
    parts.device = device;
    parts.kernels = kernels;
    parts.pool = pool;
    parts.records = records_steps;
    parts.runs_ahead = runs_ahead;
    parts.recorder = recorder;
    return std::make_unique<DeviceRunner>(std::move(parts));
  }
  CpuRunner::Parts parts;
  parts.weights = weights_of(plan);
  if (packed != nullptr) packed->push_back(packed_plan(plan, parts.weights));
  for (LoadedWeight& weight : parts.weights) {
    if (!quantizes_rows && weight.activations == Activations::kBlocks) weight.activations = Activations::kFloats;
  }
  parts.plan = std::move(plan);
  parts.kv_format = kv_format;
  parts.kernels = kernels;
  parts.pool = pool;
  parts.recorder = recorder;
  parts.chooses_threads = chooses_threads;
  return std::make_unique<CpuRunner>(std::move(parts));
}

cpu::KvFormat kv_format_of(const analysis::Signature& signature, std::optional<cpu::KvFormat> asked, WeightChoice weights) {
  if (asked) return *asked;
  if (weights == WeightChoice::kQ8 || weights == WeightChoice::kQ4) return cpu::KvFormat::kF16;
  const bool half = !signature.cache.empty() && std::all_of(signature.cache.begin(), signature.cache.end(), [](const auto& group) {
    return group.dtype == DType::kF16 || group.dtype == DType::kBF16;
  });
  return half ? cpu::KvFormat::kF16 : cpu::KvFormat::kF32;
}

SourceStage::SourceStage(const analysis::Signature& signature, const Stages& stages, const RunnerFactory& make, Runner& decoder,
                         const OpenOther& open)
    : encoder_file_(signature.encoder()), embedding_file_(signature.file_of(analysis::Stage::kEmbedding)), decoder_(&decoder) {
  const auto other = [&](const analysis::File& file, const std::string& reason) {
    if (!open) throw Error(Code::kUnsupported, reason);
    make.log.warning(fmt::format("{} is not run natively: {}", file.path.filename().string(), reason));
    return open(file);
  };
  if (stages.decoder->embedding != kNoIndex) {
    if (stages.embedding != nullptr)
      embedding_ = make(stages.embedding);
    else
      other_embedding_ = other(*embedding_file_, stages.embedding_refused);
  }
  if (encoder_file_ == nullptr) return;
  source_store_ = page_store(decoder, decoder.cache_bytes().source_page, make.budget);
  const analysis::File& decoder_file = file_of(signature, *stages.decoder);
  for (const Plan::SourceValue& source : stages.decoder->source_inputs)
    wanted_.push_back(encoder_output_for(signature, decoder_file, source.port));
  const analysis::Port* hidden = encoder_file_->output_of(Role::kHiddenStates);
  const bool only_hidden =
      hidden != nullptr && std::all_of(wanted_.begin(), wanted_.end(), [&](const std::string& name) { return name == hidden->name; });
  if (stages.encoder != nullptr && only_hidden) {
    encoder_ = std::make_unique<HiddenStates>(make(stages.encoder), make.budget);
  } else {
    other_encoder_ = other(*encoder_file_, stages.encoder != nullptr ? "it outputs keys and values directly" : stages.encoder_refused);
  }
}

int SourceStage::max_positions(const analysis::Signature& signature) const {
  int64_t most = signature.max_source_positions.value_or(0);
  const std::optional<int64_t> own = encoder_ == nullptr ? std::nullopt : encoder_->runner().plan().max_positions;
  if (own) most = most > 0 ? std::min(most, *own) : *own;
  return static_cast<int>(std::min<int64_t>(most, 1 << 30));
}

SourceStage::Outputs SourceStage::run_encoder(std::span<const Tensor> inputs) {
  Outputs outputs;
  if (encoder_ != nullptr) {
    for (const Tensor& hidden : encoder_->run(inputs)) outputs.emplace_back(wanted_.size(), hidden);
    return outputs;
  }
  std::vector<backend::Wanted> names;
  for (const std::string& name : wanted_) names.push_back({name, true});
  for (const Tensor& input : inputs) {
    const std::vector<backend::NamedValue> feeds = backend::encoder_feeds(*encoder_file_, {&input, 1}, *other_encoder_);
    outputs.emplace_back();
    for (const backend::ValuePtr& value : other_encoder_->run(feeds, names)) outputs.back().push_back(value->to_host());
  }
  return outputs;
}

std::vector<std::shared_ptr<const backend::Source>> SourceStage::encode(std::span<const Tensor> inputs) {
  if (encoder_file_ == nullptr) throw Error(Code::kBadArgument, "this model has no encoder");
  std::vector<std::shared_ptr<const backend::Source>> sources;
  for (size_t first = 0; first < inputs.size();) {
    int64_t n_rows = inputs[first].size();
    size_t end = first + 1;
    while (end < inputs.size() && n_rows + inputs[end].size() <= kMostRows) n_rows += inputs[end++].size();
    for (auto& source : encode_together(inputs.subspan(first, end - first))) sources.push_back(std::move(source));
    first = end;
  }
  return sources;
}

std::vector<std::shared_ptr<const backend::Source>> SourceStage::encode_together(std::span<const Tensor> inputs) {
  const Outputs outputs = run_encoder(inputs);
  work_.encoded += static_cast<int64_t>(inputs.size());
  const std::vector<Plan::SourceValue>& wanted = decoder_->plan().source_inputs;
  std::vector<std::vector<float>> given(wanted.size());
  std::vector<std::shared_ptr<const backend::Source>> sources;
  std::vector<RunSequence> sequences;
  std::vector<RunRow> rows;
  for (size_t s = 0; s < inputs.size(); ++s) {
    int64_t n_positions = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Tensor by_row = by_position(outputs[s][i], wanted[i].position_axis);
      n_positions = by_row.dim(0);
      const int64_t size = decoder_->plan().value(wanted[i].value).size;
      if (by_row.dim(1) != size)
        throw Error(Code::kBadModel, fmt::format("the encoder outputs {} numbers per position; the decoder reads {}", by_row.dim(1), size));
      given[i].insert(given[i].end(), by_row.data<float>().begin(), by_row.data<float>().end());
    }
    auto source = std::make_shared<backend::NativeSource>(source_store_, n_positions);
    sequences.emplace_back();
    sequences.back().source_pages = source->pages.panels();
    sequences.back().n_source = n_positions;
    for (int64_t p = 0; p < n_positions; ++p) rows.push_back({p, static_cast<int32_t>(s)});
    sources.push_back(std::move(source));
  }
  const std::vector<std::span<const float>> views(given.begin(), given.end());
  decoder_->prepare_source(rows);
  if (!rows.empty()) decoder_->run_source(rows, sequences, views);
  work_.cross_projected += static_cast<int64_t>(inputs.size());
  return sources;
}

std::span<const float> SourceStage::embed(std::span<const int64_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t size = decoder_->plan().value(decoder_->plan().embedding).size;
  embeddings_.resize(static_cast<size_t>(n * size));
  if (embedding_ != nullptr) {
    std::vector<RunRow> rows(tokens.size());
    std::vector<int32_t> wanted;
    for (size_t i = 0; i < rows.size(); ++i) wanted.push_back(static_cast<int32_t>(i));
    const RunSequence none;
    embedding_->prepare(rows);
    embedding_->run({rows, {&none, 1}, tokens, {}, wanted, embeddings_.data()});
    return embeddings_;
  }
  const analysis::Port* ids = embedding_file_->input_of(Role::kTokenIds);
  const analysis::Port* output = embedding_file_->output_of(Role::kEmbeddings);
  if (ids == nullptr || embedding_file_->inputs.size() != 1 || embedding_file_->outputs.empty())
    throw Error(Code::kUnsupported, fmt::format("{}: only token ids can be fed to it", embedding_file_->path.string()));
  const std::vector<TokenId> narrow(tokens.begin(), tokens.end());
  const backend::NamedValue feed{ids->name, other_embedding_->from_host(backend::token_feed(*ids, narrow, {1, 0, n, true}))};
  const backend::Wanted wanted{output != nullptr ? output->name : embedding_file_->outputs.front().name, true};
  const Tensor made = other_embedding_->run({&feed, 1}, {&wanted, 1}).front()->to_host();
  if (made.size() != n * size)
    throw Error(Code::kBadModel, fmt::format("the embeddings have {} numbers; {} were expected", made.size(), n * size));
  backend::copy_floats(made, 0, embeddings_);
  return embeddings_;
}

}  // namespace kvik::native
