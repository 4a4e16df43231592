#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/native/plan/plan.h"

// Plans in a file: written atomically, and accepted only if every byte is as it was written, by the same compiler and for the same model.
// Weights stay in the model's files; the plan refers to them by index. The file does not depend on the instruction set, the number of
// threads or the weights format, which are chosen when a plan is loaded.
namespace kvik::native {

// Must be raised whenever the compiler produces different plans for a model, or the file format changes.
inline constexpr int kPlanVersion = 4;

// A model file that a plan may refer to.
struct PlanModel {
  std::string path;  // as in Plan::file
  std::shared_ptr<const onnx::Model> model;
};

struct SavedPlans {
  std::string options;                             // options of the compilation
  std::vector<std::shared_ptr<const Plan>> plans;  // null: there is none
  std::vector<std::string> refused;                // reasons, for each missing plan
};

// Throws Error(kIo), and Error(kUnsupported) for a plan that cannot be stored.
void write_plans(const std::filesystem::path& path, const SavedPlans& plans, std::span<const PlanModel> models);

// Throws Error(kIo) for a file that cannot be read and Error(kBadArgument) for one that is not a plan, damaged, of another version, of
// another model, or not well-formed (check_plan.h).
SavedPlans read_plans(const std::filesystem::path& path, std::span<const PlanModel> models);

// The same for the bytes of a file without its checksum; does not check that it belongs to this model. `name` is for messages.
SavedPlans parse_plans(std::span<const std::byte> bytes, std::span<const PlanModel> models, std::string_view name);
// A complete file except for its checksum. Without `identities`, whose computation reads parts of all weights, only parse_plans() accepts
// it.
std::string plan_bytes(const SavedPlans& plans, std::span<const PlanModel> models, bool identities = true);

}  // namespace kvik::native
