#include "backend/native/execute/cpu/load_weights.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <functional>

#include "backend/native/execute/cpu/weight_memory.h"
#include "backend/native/execute/weight_source.h"
#include "base/mapped_file.h"
#include "base/memory_info.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

using cpu::WeightFormat;

constexpr int64_t kChunkBytes = int64_t{8} << 20;  // of a file that are packed before their pages are dropped
constexpr int64_t kLookedUpColumns = 4096;

void check_memory(const std::vector<ChosenWeight>& chosen) {
  int64_t needed = 0;
  for (const ChosenWeight& weight : chosen) needed += weight.is_multiplied ? weight.size_bytes : 0;
  const auto available = static_cast<int64_t>(available_memory_bytes());
  if (available == 0 || needed <= available) return;
  throw Error(
      Code::kTooLarge,
      fmt::format("the weights would take {:.1f} GB in this form, and {:.1f} GB of memory is free; use a smaller format with --weights "
                  "f16, q8 or q4",
                  static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9));
}

// Codes that no layout keeps, as floats in memory of their own.
WeightSource as_floats(const WeightPart& part, const WeightSource& codes, ThreadPool& pool) {
  WeightSource source;
  Tensor floats(DType::kF32, {part.n, part.k});
  float* data = floats.mutable_data<float>().data();
  pool.for_each(part.n, [&](int64_t n) { cpu::read_column(*codes.codes, n, data + n * part.k); });
  source.floats = cpu::FloatSource{DType::kF32, data, part.k, part.n, true};
  source.views = {floats};
  return source;
}

// Codes as they are: the layout of the first part, with room for zero points where any part has some.
cpu::WeightLayout stored_layout(const cpu::QuantSource& first, const PlanWeight& weight) {
  const cpu::WeightLayout own = cpu::layout_for(first);
  if (weight.parts.size() == 1) return own;
  const bool zero_points = own.has_zero_points || std::any_of(weight.parts.begin(), weight.parts.end(),
                                                              [](const WeightPart& part) { return part.zero_points >= 0; });
  return cpu::block_layout({cpu::block_bits(own.format), own.block, zero_points ? cpu::ScaleFormat::kF32 : own.scales, zero_points},
                           weight.k, weight.n);
}

cpu::WeightLayout layout_of(const ChosenWeight& chosen, const WeightSource& first, const PlanWeight& weight) {
  if (chosen.format == WeightFormat::kChannels8) return cpu::channel_layout(weight.k, weight.n);
  if (chosen.as_stored) return stored_layout(*first.codes, weight);
  if (cpu::block_bits(chosen.format) > 0) return cpu::block_layout(blocks_of(chosen.format, weight.k), weight.k, weight.n);
  return cpu::float_layout(chosen.format, weight.k, weight.n);
}

// Says how far packing is, once a second.
class PackingProgress {
 public:
  PackingProgress(int64_t total_bytes, const Log& log) : total_bytes_(total_bytes), log_(log) {}
  void add(int64_t bytes) {
    done_bytes_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - said_ < std::chrono::seconds(1)) return;
    said_ = now;
    log_.info(fmt::format("packed {} of {} MB of weights", done_bytes_ / 1'000'000, total_bytes_ / 1'000'000));
  }

 private:
  int64_t total_bytes_, done_bytes_ = 0;
  const Log& log_;
  std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

struct PackedPart {
  cpu::WeightLayout layout;  // of the whole
  std::byte* data;
  int64_t first;  // panel
};

// The part's panels are in the whole from `first` on; its zero points likewise behind all panels. The source is read once, some panels at
// a time, whose pages are dropped before the next.
void pack_part(const ChosenWeight& chosen, const WeightSource& source, const PackedPart& to, const std::function<void(ColumnRange)>& check,
               ThreadPool& pool, PackingProgress& progress) {
  const cpu::WeightLayout& all = to.layout;
  const int64_t n = source.codes ? source.codes->n : source.floats->n;
  cpu::WeightLayout own = all;
  own.n = n;
  own.n_panels = (n + all.panel_columns - 1) / all.panel_columns;
  own.zero_points_offset = all.zero_points_offset - to.first * all.panel_bytes + to.first * all.n_blocks * 16;
  std::byte* data = to.data + to.first * all.panel_bytes;
  const int64_t source_bytes = std::max<int64_t>(1, static_cast<int64_t>(source.in_file.size()) / own.n_panels);
  const int64_t step = std::max<int64_t>(1, kChunkBytes / source_bytes);  // panels
  for (int64_t begin = 0; begin < own.n_panels; begin += step) {
    const int64_t end = std::min(begin + step, own.n_panels);
    const ColumnRange columns{begin * all.panel_columns, std::min(end * all.panel_columns, n)};
    check(columns);
    pool.for_ranges(end - begin, 8, [&](int64_t from, int64_t until) {
      const cpu::PanelRange panels{begin + from, begin + until};
      if (chosen.format == WeightFormat::kChannels8) return cpu::pack_channels(*source.codes, own, data, panels);
      if (chosen.as_stored) return cpu::pack_panels(*source.codes, own, data, panels);
      cpu::pack_panels(*source.floats, own, data, panels);
    });
    drop_columns(source, columns);
    progress.add((end - begin) * all.panel_bytes);
  }
  drop_pages(source.in_file);
}

// What does not depend on where the numbers are.
LoadedWeight empty_weight(const PlanWeight& weight, const ChosenWeight& chosen) {
  LoadedWeight loaded;
  loaded.activations = chosen.activations;
  loaded.row_scale = weight.row_scale;
  loaded.row_zero_point = weight.row_zero_point;
  return loaded;
}

void look_up(LoadedWeight& loaded, WeightSource source) {
  loaded.floats = source.floats;
  loaded.codes = source.codes;
  loaded.views = std::move(source.views);
}

struct Packing {
  ThreadPool& pool;
  PackingProgress& progress;
  WeightMemory& memory;
};

LoadedWeight load_one(const Plan& plan, const PlanWeight& weight, const ChosenWeight& chosen, const Packing& packing) {
  LoadedWeight loaded = empty_weight(weight, chosen);
  ThreadPool& pool = packing.pool;
  PackedPart to{};
  for (size_t p = 0; p < weight.parts.size(); ++p) {
    const WeightPart& part = weight.parts[p];
    const WeightSource stored = weight_source(plan, part);
    const auto check = [&](ColumnRange columns) { check_finite(plan, part, stored, columns, pool); };
    if (!chosen.is_multiplied) {
      for (int64_t begin = 0; begin < part.n; begin += kLookedUpColumns) {
        const ColumnRange columns{begin, std::min(begin + kLookedUpColumns, part.n)};
        check(columns);
        drop_columns(stored, columns);
      }
      look_up(loaded, stored);
      return loaded;
    }
    const bool converted = stored.codes && !chosen.as_stored;
    if (converted) check({0, part.n});
    const WeightSource source = converted ? as_floats(part, stored, pool) : stored;
    if (p == 0) {
      const cpu::WeightLayout layout = layout_of(chosen, source, weight);
      const WeightMemory::Room room = packing.memory.take(static_cast<size_t>(layout.size_bytes));
      to = {layout, room.data, 0};
      loaded.memory = room.buffer;
      loaded.packed = {layout, room.data};
    }
    if (converted) {
      pack_part(
          chosen, source, to, [](ColumnRange) {}, pool, packing.progress);
    } else {
      pack_part(chosen, source, to, check, pool, packing.progress);
    }
    drop_pages(stored.in_file);
    to.first += part.n / to.layout.panel_columns;
  }
  return loaded;
}

// A weight that is NaN would make all logits NaN without a message.
void check_constants(const Plan& plan) {
  for (const Op& op : plan.ops) {
    if (op.as<ReferenceOp>() != nullptr) continue;
    for (const Input& input : op.in) {
      for (const float x : plan.floats(input)) {
        if (!std::isnan(x)) continue;
        throw Error(Code::kBadModel, fmt::format("{}: a constant that it reads holds NaN; export the model again", plan.describe(op)));
      }
    }
  }
}

}  // namespace

void load_each_weight(const Plan& plan, WeightChoice choice, ThreadPool& pool, const Log& log,
                      const std::function<void(size_t, LoadedWeight)>& take,
                      const std::function<bool(size_t, const ChosenWeight&)>& take_stored) {
  const std::vector<ChosenWeight> chosen = choose_weights(plan, choice);
  check_constants(plan);
  int64_t total_bytes = 0;
  for (const ChosenWeight& weight : chosen) total_bytes += weight.is_multiplied ? weight.size_bytes : 0;
  PackingProgress progress(total_bytes, log);
  WeightMemory memory(total_bytes);
  const Packing packing{pool, progress, memory};
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (take_stored && take_stored(i, chosen[i]))
      progress.add(chosen[i].size_bytes);
    else
      take(i, load_one(plan, plan.weights[i], chosen[i], packing));
  }
}

std::vector<LoadedWeight> load_weights(const Plan& plan, WeightChoice choice, ThreadPool& pool, const Log& log) {
  check_memory(choose_weights(plan, choice));
  std::vector<LoadedWeight> loaded;
  load_each_weight(plan, choice, pool, log, [&](size_t, LoadedWeight weight) { loaded.push_back(std::move(weight)); });
  return loaded;
}

SavedWeight saved_form(const LoadedWeight& weight) {
  if (!weight.is_packed()) return {};
  const cpu::WeightLayout& layout = weight.packed.layout;
  SavedWeight saved{.is_packed = true, .size_bytes = static_cast<uint64_t>(layout.size_bytes)};
  const int bits = cpu::block_bits(layout.format);
  saved.blocks = {bits > 0 ? bits : 8, layout.block, layout.scales, layout.has_zero_points};
  return saved;
}

namespace {

[[noreturn]] void bad_saved(std::string_view why) { throw Error(Code::kBadArgument, fmt::format("a packed weight {}", why)); }

// Follows from the plan, but for blocks that are kept as the model's file has them.
cpu::WeightLayout saved_layout(const PlanWeight& weight, const ChosenWeight& chosen, const cpu::BlockFormat& blocks) {
  if (chosen.format == WeightFormat::kChannels8) return cpu::channel_layout(weight.k, weight.n);
  const int bits = cpu::block_bits(chosen.format);
  if (bits == 0) return cpu::float_layout(chosen.format, weight.k, weight.n);
  if (blocks.bits != bits) bad_saved("has another number of bits than the plan asks for");
  const cpu::WeightLayout layout = cpu::block_layout(blocks, weight.k, weight.n);
  if (!chosen.as_stored && (layout.size_bytes != chosen.size_bytes || layout.block != blocks_of(chosen.format, weight.k).block))
    bad_saved("has other blocks than the plan asks for");
  return layout;
}

}  // namespace

std::vector<LoadedWeight> map_weights(const Plan& plan, WeightChoice choice, std::span<const SavedWeight> saved,
                                      const std::shared_ptr<const MappedFile>& file) {
  const std::vector<ChosenWeight> chosen = choose_weights(plan, choice);
  if (saved.size() != chosen.size()) bad_saved(fmt::format("is missing: {} of {} were found", saved.size(), chosen.size()));
  std::vector<LoadedWeight> loaded;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const PlanWeight& weight = plan.weights[i];
    LoadedWeight& one = loaded.emplace_back(empty_weight(weight, chosen[i]));
    if (saved[i].is_packed != chosen[i].is_multiplied) bad_saved("is used differently from the plan");
    if (!saved[i].is_packed) {
      look_up(one, weight_source(plan, weight.parts.front()));
      continue;
    }
    const cpu::WeightLayout layout = saved_layout(weight, chosen[i], saved[i].blocks);
    const uint64_t offset = saved[i].offset, size_bytes = saved[i].size_bytes;
    if (size_bytes != static_cast<uint64_t>(layout.size_bytes)) bad_saved("has another size than the plan asks for");
    if (offset % 64 != 0 || offset > file->size_bytes() || size_bytes > file->size_bytes() - offset) bad_saved("is outside of the file");
    one.packed = {layout, file->bytes().data() + offset};
    one.mapped = file;
  }
  return loaded;
}

}  // namespace kvik::native
