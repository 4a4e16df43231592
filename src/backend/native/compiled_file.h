#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/native/execute/cpu/load_weights.h"
#include "backend/native/saved_stages.h"

// A compiled model in a file: its plans and all packed weights, which are mapped and not read. The file is valid for one version of the
// model's files, one version of Kvik, one set of compile options and one weights format; it does not depend on the instruction set, the
// number of threads or the KV cache format.
//
// Header and index are checked each time: checksum, sizes, and every layout against the plan, so that no file makes a kernel read outside
// of it. The bytes of weights are not read on loading. Their hashes are in the index, for check_compiled().
namespace kvik::native {

// Version of the file format.
inline constexpr int kCompiledVersion = 1;

// What a file was compiled from.
struct CompiledKey {
  std::string text;   // everything that the contents depend on
  std::string model;  // for display: name and weights format
  std::string file_name() const;
};
CompiledKey compiled_key(const analysis::Signature& signature, const StageOptions& options, WeightChoice weights);

// The packed matrices of one plan; views.
struct PackedPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<SavedWeight> form;                  // offsets and hashes are set when it is written
  std::vector<std::span<const std::byte>> bytes;  // empty if it is only looked up
};
PackedPlan packed_plan(std::shared_ptr<const Plan> plan, std::span<const LoadedWeight> weights);
uint64_t packed_bytes(const std::vector<PackedPlan>& plans);

// `plans`: what was packed for the stages, in any order. Throws Error(kIo).
void write_compiled(const std::filesystem::path& path, const CompiledKey& key, const SavedPlans& saved,
                    const std::vector<PlanModel>& models, std::vector<PackedPlan> plans);

struct CompiledModel {
  SavedPlans saved;
  Stages stages;                                   // the same plans
  std::vector<std::vector<LoadedWeight>> weights;  // one for each plan
  std::shared_ptr<const MappedFile> file;
};
// Throws Error(kIo) if the file cannot be read, and Error if it is damaged or belongs to another model.
CompiledModel read_compiled(const std::filesystem::path& path, const CompiledKey& key, const analysis::Signature& signature,
                            const StageOptions& options, WeightChoice weights);

// Reads a file into the page cache before its pages are needed. Any thread, at any time.
void read_ahead(const MappedFile& file, const std::stop_token& stop);

// The model that the file was compiled from, according to its header. Throws Error.
std::string model_of_compiled(const std::filesystem::path& path);

// Reads all weights and compares them with their hashes. Throws Error.
void check_compiled(const std::filesystem::path& path);

// Parses header and index of a file of this size, for tests and the fuzzer; `bytes` is its beginning.
struct CompiledIndex {
  std::string key, model, plans;
  std::vector<std::vector<SavedWeight>> weights;
};
CompiledIndex parse_compiled(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view name);

}  // namespace kvik::native
