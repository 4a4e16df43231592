#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/native/execute/load_weights.h"
#include "backend/native/place/place.h"
#include "backend/native/tables/table_rows.h"
#include "base/aligned_buffer.h"
#include "base/recorder.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/kernels.h"

// In: a plan, its weights packed, and rows of sequences with the pages of their caches.
// Out: logits of the rows that want them; keys and values appended to the pages.
// Afterwards: a row's logits do not depend on the rows beside it, on threads or on the instruction set: equal bits. A failed run has
// changed nothing before the first row's position.
namespace kvik::native {

// The attentions of a plan as the kernels want them, and where each lies in a page.
struct AttendLayouts {
  std::vector<cpu::Attention> of_attend;  // page_offset: in pages of the sequence, or of the source
  int64_t page_bytes = 0;                 // of a sequence's page: all its layers
  int64_t source_page_bytes = 0;
};
AttendLayouts cache_layout(const Plan& plan, cpu::KvFormat format);

// One row of a call.
struct RunRow {
  int64_t position = 0;
  int32_t sequence = 0;
  bool beyond = false;  // its sequence is longer than Plan::switch_after
  // Sequences that branch off behind this row: they get its keys and values too. A range of RunCall::branches.
  int32_t first_branch = 0;
  int32_t n_branches = 0;
};

// What the rows of one sequence share.
struct RunSequence {
  std::byte* const* pages = nullptr;         // its own keys and values, writable from its first row on
  int64_t n_keys = 0;                        // of attention that sees everything: positions after this call
  std::byte* const* source_pages = nullptr;  // of cross attention
  int64_t n_source = 0;
  std::byte* const* registers = nullptr;  // [register]
};

struct RunCall {
  std::span<const RunRow> rows;
  std::span<const RunSequence> sequences;
  std::span<const int64_t> tokens;    // [rows]; empty where rows come as embeddings
  std::span<const float> embeddings;  // [rows][size]
  std::span<const int32_t> wanted;    // rows whose output is wanted, ascending
  float* output = nullptr;            // [wanted][output size]
  std::span<const int32_t> branches;  // sequences; see RunRow
};

// A plan ready to run: weights packed, values placed. run() is for one thread at a time and allocates nothing once it has seen a call of
// that size (plans with reference operations aside).
class Runner {
 public:
  struct Parts {
    std::shared_ptr<const Plan> plan;
    std::vector<LoadedWeight> weights;
    cpu::KvFormat kv_format = cpu::KvFormat::kF32;
    const cpu::CpuKernels* kernels = nullptr;
    ThreadPool* pool = nullptr;    // outlives it
    Recorder* recorder = nullptr;  // the same; null: nothing is measured
  };
  explicit Runner(Parts parts);

  const Plan& plan() const { return *parts_.plan; }
  const AttendLayouts& layouts() const { return layouts_; }
  int64_t output_size() const { return plan().output.size; }
  int64_t bytes_per_row() const { return placement_.body_bytes; }  // of its values

  // Computes the position tables as far as these rows need them: the only thing of a run that may take long or fail for want of memory.
  // Before every run() and run_source() of such rows. Throws Error(kTooLarge) for positions that the model does not have.
  void prepare(std::span<const RunRow> rows);
  void prepare_source(std::span<const RunRow> rows);

  // Rows of a sequence come in order. Throws Error and has then written nothing but positions from the first row on, and registers.
  void run(const RunCall& call);

  // The source's section for the positions of some sources, whose pages it fills: `inputs` are the values given for each row,
  // [source_inputs][rows][size].
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources, std::span<const std::span<const float>> inputs);

 private:
  friend class Frame;
  struct View {
    std::byte* base = nullptr;
    int64_t stride = 0;  // bytes
  };

  void run_rows(const RunCall& call);
  void run_waves(const RunCall& call);
  void run_section(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void name_kinds();
  Recorder::Work work_of(const Op& op, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const;
  void extend_tables(Op::Section section, std::span<const RunRow> rows);
  void require_tables(Op::Section section, std::span<const RunRow> rows) const;
  void reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void give_inputs(const RunCall& call);
  void enter_tail(const RunCall& call);
  void copy_output(const RunCall& call);

  Parts parts_;
  AttendLayouts layouts_;
  Placement placement_;
  PositionTables tables_[2];        // up to Plan::switch_after, and beyond
  ValueIndex external_ = kNoIndex;  // the value that is written where the caller wants the output
  // Rows that are quantised before a product: how many for a row of the call, and how long.
  struct QuantisedShape {
    Activations activations;
    int64_t n_rows, k;
    friend bool operator==(const QuantisedShape&, const QuantisedShape&) = default;
  };
  std::vector<QuantisedShape> quantised_;
  std::vector<int> kinds_;  // [op] of the recorder

  struct SectionMemory {
    std::vector<OpIndex> ops;
    std::vector<int> tables;         // that they read
    std::vector<ValueIndex> values;  // that lie in its arena
    int64_t row_bytes = 0;
    AlignedBuffer arena;
    int64_t n_rows = -1;  // that views_ are set for
  };
  SectionMemory sections_[3];
  std::vector<View> views_;  // by value
  AlignedBuffer scratch_;
  std::vector<RunRow> tail_rows_;
  std::vector<cpu::AttendRow> attend_rows_;
  std::span<const int32_t> branches_;  // of the call that runs

  struct Wave {
    std::vector<RunRow> rows;
    std::vector<int64_t> tokens;
    std::vector<int32_t> wanted, output_rows;
    std::vector<float> embeddings, output;
  };
  Wave wave_;
};

}  // namespace kvik::native
