#include "backend/native/plan/plan_file.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backend/native/plan/check_plan.h"
#include "backend/native/plan/plan_fields.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/new_file.h"
#include "onnx/identity.h"

// magic, version, identities of the model's files, options, plans; hash of everything before it.
namespace kvik::native {
namespace {

constexpr std::string_view kMagic = "kvik plan\n";
constexpr size_t kHashBytes = sizeof(uint64_t);

uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

template <class A>
void field(A& a, std::shared_ptr<const Plan>& plan) {
  bool has = plan != nullptr;
  a.flag(has, 0);
  if (!has) return;
  auto one = plan == nullptr ? std::make_shared<Plan>() : std::make_shared<Plan>(*plan);
  field(a, *one);
  if constexpr (A::kReads) {
    check_plan(*one);
    one->index();
    plan = std::move(one);
  }
}

std::vector<std::string> identities_of(std::span<const PlanModel> models) {
  std::vector<std::string> identities;
  for (const PlanModel& one : models) identities.push_back(onnx::identity_of(*one.model));
  return identities;
}

template <class A>
void contents(A& a, SavedPlans& saved) {
  fields(a, saved.options);
  auto n = static_cast<uint64_t>(saved.plans.size());
  if constexpr (A::kReads) {
    n = a.count();
    saved.plans.resize(std::min<size_t>(n, 8));
    if (n > saved.plans.size()) a.fail("it has more plans than models have stages");
  } else {
    a.number(n);
  }
  for (std::shared_ptr<const Plan>& plan : saved.plans) field(a, plan);
  fields(a, saved.refused);
}

}  // namespace

void PlanReader::fail(std::string_view why) const {
  throw Error(Code::kBadArgument, fmt::format("{}: {}; delete the file, and it will be compiled again", name_, why));
}

std::string plan_bytes(const SavedPlans& plans, std::span<const PlanModel> models, bool with_identities) {
  const ModelTensors tensors(models);
  PlanWriter writer(tensors);
  writer.append(std::as_bytes(std::span(kMagic)));
  int32_t version = kPlanVersion;
  writer.number(version);
  std::vector<std::string> identities;
  if (with_identities) identities = identities_of(models);
  field(writer, identities);
  SavedPlans copied = plans;
  contents(writer, copied);
  return writer.take();
}

void write_plans(const std::filesystem::path& path, const SavedPlans& plans, std::span<const PlanModel> models) {
  const std::string saved = plan_bytes(plans, models);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(saved));
  const uint64_t hash = hash_of(bytes);
  NewFile file(path);
  file.write(bytes);
  file.write(std::as_bytes(std::span(&hash, 1)));
  file.commit();
}

namespace {

SavedPlans parse(std::span<const std::byte> bytes, std::span<const PlanModel> models, std::string_view name, bool of_this_model) {
  const ModelTensors tensors(models);
  PlanReader reader(bytes, tensors, name);
  const bool ours = bytes.size() > kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  if (!ours) reader.fail("this is not a plan saved by Kvik");
  reader.take(kMagic.size());
  int32_t version = 0;
  reader.number(version);
  if (version != kPlanVersion) reader.fail(fmt::format("it has version {}; this compiler uses version {}", version, kPlanVersion));
  std::vector<std::string> identities;
  field(reader, identities);
  if (of_this_model && identities != identities_of(models)) reader.fail("it belongs to another model, or the model has changed");
  SavedPlans saved;
  contents(reader, saved);
  if (!reader.at_end()) reader.fail("it is longer than its contents");
  return saved;
}

}  // namespace

SavedPlans parse_plans(std::span<const std::byte> bytes, std::span<const PlanModel> models, std::string_view name) {
  return parse(bytes, models, name, false);
}

SavedPlans read_plans(const std::filesystem::path& path, std::span<const PlanModel> models) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  const size_t n_hashed = bytes.size() - std::min(bytes.size(), kHashBytes);
  const uint64_t hash = hash_of(bytes.first(n_hashed));
  if (bytes.size() <= kHashBytes || std::memcmp(&hash, bytes.data() + n_hashed, kHashBytes) != 0) {
    throw Error(Code::kBadArgument,
                fmt::format("{}: its checksum does not fit its contents; delete the file, and it will be compiled again", path.string()));
  }
  return parse(bytes.first(n_hashed), models, path.string(), true);
}

}  // namespace kvik::native
