#include "backend/graph/step_runner.h"

#include <algorithm>
#include <fmt/format.h>

#include "analysis/fit.h"
#include "analysis/mask_use.h"
#include "backend/graph/batch_tensor.h"
#include "backend/graph/convert.h"
#include "backend/graph/encoder_feeds.h"
#include "backend/graph/sources.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

using analysis::File;
using analysis::Port;
using analysis::Role;

// Every input of a decoder must have a role that can be fed.
void check_feeds(const File& file) {
  for (const Port& port : file.inputs) {
    const bool known = is_shape_role(port.role) || is_state_role(port.role) || port.role == Role::kTokenIds ||
                       port.role == Role::kInputsEmbeds || port.role == Role::kEncoderHiddenStates ||
                       port.role == Role::kEncoderAttentionMask;
    if (known) continue;
    throw Error(Code::kUnsupported, fmt::format("{}: the role of input '{}' ({} {}) is unknown; name it in kvik.json", file.path.string(),
                                                port.name, dtype_name(port.dtype), analysis::role_name(port.role)));
  }
}

// A single start position may be meant for one token only, and a list of positions may be meant to have one element.
bool must_be_tried(const File& file) {
  const bool fixed = std::any_of(file.states.begin(), file.states.end(),
                                 [](const analysis::State& state) { return !state.cross && state.growth == analysis::Growth::kFixed; });
  return std::any_of(file.inputs.begin(), file.inputs.end(), [&](const Port& port) {
    const bool one = port.has_shape && (port.dims.empty() || (port.dims.size() == 1 && port.dims[0].value == 1));
    return port.unclear_count || (fixed && one && (port.role == Role::kWriteIndices || port.role == Role::kKvLength));
  });
}

int index_of(const std::vector<Port>& ports, Role role) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.role == role; });
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

// The size of a state's position axis after `length` positions.
int64_t positions_in(const analysis::State& layout, int64_t length) {
  return layout.growth == analysis::Growth::kFixed ? layout.capacity : length;
}

// The shape of one sequence's state; -1: not declared.
Dims expected_dims(const analysis::State& layout, const Port& port, int64_t length) {
  Dims dims;
  for (const onnx::Dim& dim : port.dims) dims.push_back(dim.value);
  if (dims.empty()) return dims;
  if (layout.batch_axis >= 0) dims[static_cast<size_t>(layout.batch_axis)] = layout.head_axis == layout.batch_axis ? layout.n_heads : 1;
  if (layout.position_axis >= 0) dims[static_cast<size_t>(layout.position_axis)] = positions_in(layout, length);
  return dims;
}

bool fits(const Tensor& state, DType dtype, const Dims& expected) {
  if (state.dtype() != dtype) return false;
  if (expected.empty()) return true;
  const auto same = [](int64_t found, int64_t wanted) { return wanted < 0 || found == wanted; };
  return std::equal(state.dims().begin(), state.dims().end(), expected.begin(), expected.end(), same);
}

}  // namespace

StepRunner::StepRunner(const analysis::Signature& signature, const OpenFile& open_file)
    : signature_(signature), slots_(find_slots(signature)) {
  const File* first = signature.first_step();
  const File* later = signature.later_step();
  if (first == nullptr || later == nullptr)
    throw Error(Code::kBadModel, fmt::format("{}: no decoder was found, so text cannot be generated with it", signature.folder.string()));
  for (const std::string& problem : analysis::generation_problems(signature))
    throw Error(Code::kBadModel, fmt::format("{}: {}", signature.folder.string(), problem));
  check_feeds(*first);
  check_feeds(*later);
  first_ = open(first, open_file);
  later_ = later == first ? first_ : open(later, open_file);
  encoder_ = open(signature.encoder(), open_file);
  if (first->input_of(Role::kInputsEmbeds) != nullptr) {
    embedding_ = open(signature.file_of(analysis::Stage::kEmbedding), open_file);
    if (embedding_.file == nullptr)
      throw Error(Code::kBadModel, fmt::format("{}: the decoder takes embeddings, and no file next to it computes them from token ids",
                                               first->path.string()));
  }
  pads_sources_ = later->input_of(Role::kEncoderAttentionMask) != nullptr;
  keeps_last_ = first->input_of(Role::kNumLogitsToKeep) != nullptr;
  const Port* ids = first->input_of(Role::kTokenIds);
  if (ids == nullptr) ids = first->input_of(Role::kInputsEmbeds);
  const bool has_shape = ids != nullptr && ids->has_shape && !slots_.self.empty();
  const bool is_translator = signature.kind == analysis::Kind::kEncoderDecoder;
  takes_single_ = has_shape && (ids->dims.size() == 1 ? is_translator : ids->dims.size() > 1 && ids->dims[1].value == 1);
  const auto has_batch = [](const Slot& slot) { return slot.layout.batch_axis >= 0; };
  takes_batches_ = std::all_of(slots_.self.begin(), slots_.self.end(), has_batch) &&
                   std::all_of(slots_.cross.begin(), slots_.cross.end(), has_batch) &&
                   (ids == nullptr || !ids->has_shape || ids->dims.size() != 1 || takes_single_);
  must_try_ = must_be_tried(*first) || must_be_tried(*later);
}

StepRunner::OpenedFile StepRunner::open(const File* file, const OpenFile& open) const {
  if (file == nullptr) return {};
  const Port* mask = file->input_of(Role::kEncoderAttentionMask);
  return {file, open(*file), mask != nullptr && analysis::only_counts(*file, *mask)};
}

StepResult StepRunner::run(const Batch& batch, std::span<const TokenId> tokens) {
  const bool is_first = batch.shape.n_past == 0;
  const OpenedFile& opened = is_first ? first_ : later_;
  Executor& executor = *opened.executor;
  const std::shared_ptr<const SourcePack> sources = sources_of(batch, executor);
  const std::vector<NamedValue> inputs = feeds(opened, batch, tokens, sources.get());

  std::vector<Wanted> wanted = {{opened.file->output_of(Role::kLogits)->name, true}};
  const auto want = [&](int output) {
    if (output >= 0) wanted.push_back({opened.file->outputs[static_cast<size_t>(output)].name});
  };
  for (const Slot& slot : slots_.self) want(is_first ? slot.first_output : slot.later_output);
  // In some files later steps also return cross-attention values, possibly empty; those of the first step are used.
  const bool makes_cross = is_first && sources != nullptr && sources->cross.empty();
  if (makes_cross) {
    for (const Slot& slot : slots_.cross) want(slot.first_output);
  }

  const std::vector<ValuePtr> outputs = executor.run(inputs, wanted);
  // A first step always computes them; a decoder without a cross-attention cache does so at every step.
  const bool projects = slots_.cross.empty() || (is_first && slots_.cross.front().encoder_output < 0);
  if (sources != nullptr && projects) n_cross_projected_ += batch.shape.n_sequences;
  auto group = std::make_shared<Group>();
  group->n_sequences = static_cast<int>(batch.shape.n_sequences);
  group->length = static_cast<int>(batch.shape.n_past + batch.shape.n_new);
  size_t at = 1;
  for (size_t s = 0; s < slots_.self.size(); ++s) {
    const auto past = std::find_if(inputs.begin(), inputs.end(), [&](const NamedValue& input) {
      const int index = is_first ? slots_.self[s].first_input : slots_.self[s].later_input;
      return index >= 0 && input.name == opened.file->inputs[static_cast<size_t>(index)].name;
    });
    const int output = is_first ? slots_.self[s].first_output : slots_.self[s].later_output;
    const Made made{&opened.file->outputs[static_cast<size_t>(output)], outputs[at++]};
    group->states.push_back(next_state(slots_.self[s], past == inputs.end() ? nullptr : past->value, made, *later_.executor));
  }
  group->sources = sources;
  if (makes_cross) {
    auto pack = std::make_shared<SourcePack>(*sources);
    for (size_t s = 0; s < slots_.cross.size(); ++s) pack->cross.push_back(outputs[at++]);
    remember_cross(*pack);
    group->sources = pack;
  }
  return {group, outputs.front()->to_host()};
}

std::vector<NamedValue> StepRunner::feeds(const OpenedFile& opened, const Batch& batch, std::span<const TokenId> tokens,
                                          const SourcePack* sources) {
  std::vector<NamedValue> result;
  Executor& executor = *opened.executor;
  for (size_t i = 0; i < opened.file->inputs.size(); ++i) {
    const Port& port = opened.file->inputs[i];
    ValuePtr value;
    if (port.role == Role::kTokenIds) {
      value = executor.from_host(token_feed(port, tokens, batch.shape));
    } else if (port.role == Role::kInputsEmbeds) {
      value = embeddings(tokens, batch.shape);
    } else if (is_state_role(port.role)) {
      value = state_feed(opened, static_cast<int>(i), batch, sources);
    } else if (port.role == Role::kEncoderHiddenStates || port.role == Role::kEncoderAttentionMask) {
      if (sources == nullptr)
        throw Error(Code::kBadArgument, fmt::format("the decoder reads '{}', so a source must be encoded first", port.name));
      value = port.role == Role::kEncoderHiddenStates ? sources->hidden_states
                                                      : executor.from_host(source_mask(port, *sources, opened.counts_source));
      if (value == nullptr)
        throw Error(Code::kBadModel, fmt::format("the decoder reads '{}', which the encoder does not output", port.name));
    } else {
      value = executor.from_host(shape_feed(port, batch.shape));
    }
    result.push_back({port.name, std::move(value)});
  }
  return result;
}

ValuePtr StepRunner::state_feed(const OpenedFile& opened, int input, const Batch& batch, const SourcePack* sources) const {
  const bool is_first = batch.shape.n_past == 0;
  const auto matches = [&](const Slot& slot) { return (is_first ? slot.first_input : slot.later_input) == input; };
  const Port& port = opened.file->inputs[static_cast<size_t>(input)];
  for (size_t s = 0; s < slots_.self.size(); ++s) {
    if (!matches(slots_.self[s])) continue;
    if (!is_first) return carried_state(s, batch, *opened.executor);
    return opened.executor->from_host(empty_state(slots_.self[s].layout, port.dims, batch.shape.n_sequences));
  }
  for (size_t s = 0; s < slots_.cross.size(); ++s) {
    if (!matches(slots_.cross[s])) continue;
    // Known if the encoder computes them, and from the second step on. The first step of a merged decoder ignores them.
    if (sources != nullptr && !sources->cross.empty()) return sources->cross[s];
    return opened.executor->from_host(empty_state(slots_.cross[s].layout, port.dims, batch.shape.n_sequences));
  }
  throw Error(Code::kInternal, fmt::format("no state belongs to the input '{}'", port.name));
}

ValuePtr StepRunner::carried_state(size_t slot, const Batch& batch, Executor& executor) const {
  const std::shared_ptr<const Group>& group = batch.caches.front()->group;
  const analysis::State& layout = slots_.self[slot].layout;
  bool as_it_is = group->length == batch.shape.n_past && group->n_sequences == static_cast<int>(batch.caches.size());
  bool of_one_group = true;
  for (size_t i = 0; i < batch.caches.size(); ++i) {
    of_one_group = of_one_group && batch.caches[i]->group == group;
    as_it_is = as_it_is && of_one_group && batch.caches[i]->row == static_cast<int>(i);
  }
  const ValuePtr& value = group->states[slot];
  if (as_it_is) return value;
  if (of_one_group && layout.batch_axis >= 0 && !layout.newest_last) {
    std::vector<int> rows;
    for (const GraphCache* cache : batch.caches) rows.push_back(cache->row);
    if (ValuePtr selected = executor.select(*value, selection_of(layout, rows, batch.shape.n_past))) return selected;
  }

  std::vector<StateRow> rows;
  for (const GraphCache* cache : batch.caches)
    rows.push_back({cache->group->states[slot]->to_host(), cache->row, cache->group->length - batch.shape.n_past});
  return executor.from_host(gather_rows(layout, rows, positions_in(layout, batch.shape.n_past)));
}

std::vector<Tensor> StepRunner::states_of(const GraphCache& cache) const {
  std::vector<Tensor> states;
  for (size_t s = 0; cache.group != nullptr && s < slots_.self.size(); ++s) {
    const analysis::State& layout = slots_.self[s].layout;
    const StateRow row{cache.group->states[s]->to_host(), cache.row, cache.group->length - cache.n_positions};
    states.push_back(gather_rows(layout, {&row, 1}, positions_in(layout, cache.n_positions)));
  }
  return states;
}

std::shared_ptr<const Group> StepRunner::group_of(std::span<const Tensor> states, int length) const {
  if (states.size() != slots_.self.size()) {
    throw Error(Code::kBadArgument, fmt::format("the saved cache has {} states; this model has {}", states.size(), slots_.self.size()));
  }
  auto group = std::make_shared<Group>();
  group->length = length;
  for (size_t s = 0; s < states.size(); ++s) {
    const analysis::State& layout = slots_.self[s].layout;
    const Port& port = later_.file->inputs[static_cast<size_t>(slots_.self[s].later_input)];
    if (!fits(states[s], layout.dtype, expected_dims(layout, port, length))) {
      throw Error(Code::kBadArgument, fmt::format("the saved cache has a state of {} {}, which does not fit the input '{}'",
                                                  dtype_name(states[s].dtype()), to_string(states[s].dims()), port.name));
    }
    Tensor own = states[s];
    own.mutable_bytes();  // copies mapped memory: the file may change while a runtime reads it
    group->states.push_back(later_.executor->from_host(std::move(own)));
  }
  return group;
}

ValuePtr StepRunner::embeddings(std::span<const TokenId> tokens, const StepShape& shape) {
  const File& file = *embedding_.file;
  const Port* ids = file.input_of(Role::kTokenIds);
  const int output = std::max(0, index_of(file.outputs, Role::kEmbeddings));
  if (ids == nullptr || file.inputs.size() != 1)
    throw Error(Code::kUnsupported, fmt::format("{}: only token ids can be fed to it", file.path.string()));
  const NamedValue input{ids->name, embedding_.executor->from_host(token_feed(*ids, tokens, shape))};
  const Wanted wanted{file.outputs[static_cast<size_t>(output)].name};
  return embedding_.executor->run({&input, 1}, {&wanted, 1}).front();
}

std::shared_ptr<const SourcePack> StepRunner::sources_of(const Batch& batch, Executor& executor) const {
  if (batch.caches.front()->source == nullptr) return nullptr;
  std::vector<SourcePtr> members;
  for (const GraphCache* cache : batch.caches) members.push_back(cache->source);
  // Beams are reordered, but their sources are not: the pack of the previous step can be reused.
  for (const GraphCache* cache : batch.caches) {
    if (cache->group != nullptr && cache->group->sources != nullptr && cache->group->sources->members == members)
      return cache->group->sources;
  }
  return pack_sources(members, slots_, executor);
}

ValuePtr StepRunner::next_state(const Slot& slot, const ValuePtr& past, const Made& made, Executor& executor) const {
  ValuePtr next = made.value;
  // Uses the declared type, because asking the runtime for a value's type is slow.
  if (made.port->dtype != slot.layout.dtype) next = executor.from_host(cast_float(next->to_host(), slot.layout.dtype));
  if (slot.layout.growth != analysis::Growth::kDelta || past == nullptr) return next;
  return executor.from_host(append_positions(slot.layout, past->to_host(), next->to_host()));
}

std::vector<SourcePtr> StepRunner::encode(std::span<const Tensor> inputs) {
  if (encoder_.file == nullptr) throw Error(Code::kBadArgument, fmt::format("{}: the model has no encoder", signature_.folder.string()));
  const File& file = *encoder_.file;
  const auto n_sequences = static_cast<int64_t>(inputs.size());
  const std::vector<NamedValue> feeds = encoder_feeds(file, inputs, *encoder_.executor);

  std::vector<Wanted> wanted;
  const int hidden = index_of(file.outputs, Role::kHiddenStates);
  if (hidden >= 0) wanted.push_back({file.outputs[static_cast<size_t>(hidden)].name});
  for (const Slot& slot : slots_.cross) {
    if (slot.encoder_output >= 0) wanted.push_back({file.outputs[static_cast<size_t>(slot.encoder_output)].name});
  }
  const std::vector<ValuePtr> outputs = encoder_.executor->run(feeds, wanted);
  n_encoded_ += n_sequences;
  if (!slots_.cross.empty() && slots_.cross.front().encoder_output >= 0) n_cross_projected_ += n_sequences;
  const size_t first_cross = hidden >= 0 ? 1 : 0;
  const ValuePtr hidden_states = hidden >= 0 ? outputs.front() : nullptr;
  const int64_t n_positions = hidden_states != nullptr
                                  ? hidden_states->dims()[1]
                                  : outputs[first_cross]->dims()[static_cast<size_t>(slots_.cross.front().layout.position_axis)];

  std::vector<SourcePtr> sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto source = std::make_shared<GraphSource>(hidden_states, static_cast<int>(i), static_cast<int>(n_positions),
                                                static_cast<int>(inputs[i].dims().front()));
    std::vector<ValueRow> cross;
    for (size_t s = first_cross; s < outputs.size(); ++s) cross.push_back({outputs[s], static_cast<int>(i)});
    if (!cross.empty()) source->set_cross(std::move(cross));
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace kvik::backend
