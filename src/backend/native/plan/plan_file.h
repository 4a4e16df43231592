#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/native/plan/plan.h"

// Plans in a file: written whole or not at all, and read only where every byte is as it was written, by the same compiler and for the same
// model. Weights stay in the model's files, which the plan names by number. The file does not depend on the instruction set, on threads or
// on the weights format: all of these are chosen when a plan is loaded.
namespace kvik::native {

// Changes whenever a compiler makes other plans of the same model, or writes the same plans in another way.
inline constexpr int kPlanVersion = 4;

// A file of the model that a plan may refer to.
struct PlanModel {
  std::string path;  // as in Plan::file
  std::shared_ptr<const onnx::Model> model;
};

struct SavedPlans {
  std::string options;                             // that they were compiled with
  std::vector<std::shared_ptr<const Plan>> plans;  // null: there is none
  std::vector<std::string> refused;                // why not, for each
};

// Throws Error(kIo), and Error(kUnsupported) for a plan that holds what no file can.
void write_plans(const std::filesystem::path& path, const SavedPlans& plans, std::span<const PlanModel> models);

// Throws Error(kIo) for a file that cannot be read and Error(kBadArgument) for one that is not a plan, damaged, of another version, of
// another model, or not well-formed (check_plan.h).
SavedPlans read_plans(const std::filesystem::path& path, std::span<const PlanModel> models);

// The same for the bytes of a file without its checksum, which is not asked whether it is of this model; `name` is for messages.
SavedPlans parse_plans(std::span<const std::byte> bytes, std::span<const PlanModel> models, std::string_view name);
// A whole file but for its checksum. Without `identities`, which read parts of all weights, only parse_plans() takes it.
std::string plan_bytes(const SavedPlans& plans, std::span<const PlanModel> models, bool identities = true);

}  // namespace kvik::native
