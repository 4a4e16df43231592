#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/graph/executor.h"
#include "backend/native/compiled_file.h"
#include "backend/native/execute/execute.h"
#include "backend/native/hidden_states.h"
#include "backend/native/native_cache.h"
#include "backend/native/stages.h"
#include "base/log.h"

namespace kvik::native {

struct SharedDevice;

// Creates runners that share kernels and threads.
struct RunnerFactory {
  WeightChoice weights = WeightChoice::kAsStored;
  bool quantizes_rows = true;  // see NativeOptions; on the CPU
  cpu::KvFormat kv_format = cpu::KvFormat::kF32;
  const cpu::CpuKernels* kernels = nullptr;
  ThreadPool* pool = nullptr;
  bool chooses_threads = false;  // see CpuRunner
  Log log;
  std::shared_ptr<kv::Budget> budget;         // of the pages of sources
  Recorder* recorder = nullptr;               // must outlive the runners; null: nothing is measured
  CompiledModel* compiled = nullptr;          // supplies packed weights; null: weights are packed here
  std::vector<PackedPlan>* packed = nullptr;  // receives views of the packed weights of every runner; may be null
  std::shared_ptr<SharedDevice> device;       // runs the plans, with weights packed for it; null: the CPU
  bool records_steps = true, runs_ahead = true;

  std::unique_ptr<Runner> operator()(std::shared_ptr<const Plan> plan) const;
  std::vector<LoadedWeight> weights_of(const std::shared_ptr<const Plan>& plan) const;
};

// The requested format. If there is none: f16 if weights are quantized at load or the file's cache has 16 bits, else f32.
cpu::KvFormat kv_format_of(const analysis::Signature& signature, std::optional<cpu::KvFormat> asked, WeightChoice weights);

// The stages before the decoder: the encoder and the embedding table. Each runs natively if it is a program over rows, otherwise on another
// executor. Used by one thread at a time.
class SourceStage {
 public:
  using OpenOther = std::function<std::unique_ptr<backend::Executor>(const analysis::File&)>;

  SourceStage() = default;
  // Throws Error if a stage is not a program over rows and no other executor can open it.
  SourceStage(const analysis::Signature& signature, const Stages& stages, const RunnerFactory& make, Runner& decoder,
              const OpenOther& open);

  bool is_native() const { return other_encoder_ == nullptr && other_embedding_ == nullptr; }
  int max_positions(const analysis::Signature& signature) const;

  // Keys and values of every cross-attention, for token ids [E] (i64) or features (f32), one tensor per source.
  std::vector<std::shared_ptr<const backend::Source>> encode(std::span<const Tensor> inputs);

  backend::SourceWork work() const { return work_; }

  // Rows for a decoder that takes embeddings, [tokens][size]; valid until the next call.
  std::span<const float> embed(std::span<const int64_t> tokens);

 private:
  // The encoder's outputs for sources that are encoded together: for each source, one tensor per source input of the decoder.
  using Outputs = std::vector<std::vector<Tensor>>;
  Outputs run_encoder(std::span<const Tensor> inputs);
  std::vector<std::shared_ptr<const backend::Source>> encode_together(std::span<const Tensor> inputs);

  const analysis::File* encoder_file_ = nullptr;
  const analysis::File* embedding_file_ = nullptr;
  Runner* decoder_ = nullptr;
  std::unique_ptr<HiddenStates> encoder_;
  std::unique_ptr<Runner> embedding_;
  std::unique_ptr<backend::Executor> other_encoder_, other_embedding_;
  std::vector<std::string> wanted_;  // outputs of the encoder, one for each of the decoder's source inputs
  std::shared_ptr<kv::PageStore> source_store_;
  backend::SourceWork work_;
  std::vector<float> embeddings_;
};

}  // namespace kvik::native
