#include "backend/native/compiled_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include "backend/native/plan/plan_archive.h"
#include "base/hash.h"
#include "base/new_file.h"
#include "kvik/error.h"
#include "kvik/version.h"

// header, index, weights; each weight at a multiple of 64 bytes.
namespace kvik::native {
namespace {

constexpr std::array<char, 16> kMagic = {'k', 'v', 'i', 'k', ' ', 'c', 'o', 'm', 'p', 'i', 'l', 'e', 'd', '\n', 0, 0};
constexpr uint64_t kAlignment = 64;  // bytes
constexpr uint64_t kMostWeights = 1 << 20;

struct Header {
  std::array<char, 16> magic = kMagic;
  uint32_t version = kCompiledVersion;
  uint32_t unused = 0;
  uint64_t file_bytes = 0;
  uint64_t index_bytes = 0;  // directly behind the header
  uint64_t hash = 0;         // of header and index, with this field zero
  std::array<uint64_t, 2> more = {};
};
static_assert(sizeof(Header) == 64);

uint64_t hash_of(Header header, std::span<const std::byte> index) {
  header.hash = 0;
  Hash hash;
  hash.add(std::as_bytes(std::span(&header, 1)));
  hash.add(index);
  return hash.value();
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

constexpr uint64_t aligned(uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

template <class A>
void weight_fields(A& a, SavedWeight& weight) {
  a.flag(weight.is_packed, 0);
  a.number(weight.blocks.bits);
  a.number(weight.blocks.block);
  a.enumeration(weight.blocks.scales, cpu::ScaleFormat::kF16);
  a.flag(weight.blocks.zero_points, 0);
  a.number(weight.offset);
  a.number(weight.size_bytes);
  a.number(weight.hash);
}

std::string index_bytes(const CompiledKey& key, const std::string& plans, const std::vector<std::vector<SavedWeight>>& weights) {
  const ModelTensors none({});
  PlanWriter writer(none);
  writer.text_view(key.text);
  writer.text_view(key.model);
  writer.text_view(plans);
  auto n_plans = static_cast<uint64_t>(weights.size());
  writer.number(n_plans);
  for (const std::vector<SavedWeight>& of_plan : weights) {
    auto n = static_cast<uint64_t>(of_plan.size());
    writer.number(n);
    for (SavedWeight weight : of_plan) weight_fields(writer, weight);
  }
  return writer.take();
}

// The linker's hash of the program or library that this code is in; empty if it made none. Versions are raised by people; this notices
// what they forget.
std::string build_id() {
  struct Search {
    ElfW(Addr) address;
    std::string id;
  };
  Search search{reinterpret_cast<ElfW(Addr)>(&build_id), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        bool contains = false;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          const ElfW(Addr) begin = object->dlpi_addr + segment.p_vaddr;
          contains = contains || (segment.p_type == PT_LOAD && wanted.address >= begin && wanted.address - begin < segment.p_memsz);
        }
        for (int i = 0; contains && i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          Hash hash;  // of all notes: the build id is among them
          hash.add({reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz});
          wanted.id += hash.hex();
        }
        return contains ? 1 : 0;
      },
      &search);
  return search.id;
}

// One version of a file, without its name: size, times, and its ends.
void add_version(Hash& hash, const MappedFile& file) {
  constexpr size_t kEnd = size_t{64} << 10;
  const std::span<const std::byte> bytes = file.bytes();
  hash.add(static_cast<int64_t>(bytes.size()));
  hash.add(file.modified_ns());
  hash.add(file.status_changed_ns());
  hash.add(bytes.first(std::min(bytes.size(), kEnd)));
  hash.add(bytes.last(std::min(bytes.size(), kEnd)));
}

CompiledIndex index_of(const MappedFile& file) { return parse_compiled(file.bytes(), file.size_bytes(), file.path().string()); }

}  // namespace

std::string CompiledKey::file_name() const {
  Hash hash;
  hash.add(text);
  return hash.hex() + ".compiled";
}

CompiledKey compiled_key(const analysis::Signature& signature, const StageOptions& options, WeightChoice weights) {
  static constexpr const char* kWeights[] = {"as stored", "f32", "f16", "q8", "q4"};
  Hash versions;
  for (const analysis::File& file : signature.files) {
    for (const std::shared_ptr<const MappedFile>& mapped : file.model->files) add_version(versions, *mapped);
  }
  const char* format = kWeights[static_cast<size_t>(weights)];
  return {.text = fmt::format("Kvik {} {}, file {}, plan {}, packing {}, {}, weights {}, model {}", kVersion, build_id(), kCompiledVersion,
                              kPlanVersion, cpu::kPackingVersion, describe(signature, options), format, versions.hex()),
          .model = fmt::format("{}, {}", std::filesystem::absolute(signature.folder).lexically_normal().string(), format)};
}

PackedPlan packed_plan(std::shared_ptr<const Plan> plan, std::span<const LoadedWeight> weights) {
  PackedPlan packed{.plan = std::move(plan)};
  for (const LoadedWeight& weight : weights) {
    packed.form.push_back(saved_form(weight));
    packed.bytes.emplace_back();
    if (weight.is_packed()) packed.bytes.back() = {weight.packed.data, static_cast<size_t>(weight.packed.layout.size_bytes)};
  }
  return packed;
}

uint64_t packed_bytes(const std::vector<PackedPlan>& plans) {
  uint64_t bytes = 0;
  for (const PackedPlan& plan : plans) {
    for (const std::span<const std::byte>& weight : plan.bytes) bytes += weight.size();
  }
  return bytes;
}

void write_compiled(const std::filesystem::path& path, const CompiledKey& key, const SavedPlans& saved,
                    const std::vector<PlanModel>& models, std::vector<PackedPlan> plans) {
  const std::string plan_text = plan_bytes(saved, models, false);
  std::vector<std::vector<SavedWeight>> weights;
  std::vector<std::span<const std::byte>> bytes;  // of all weights
  for (const std::shared_ptr<const Plan>& plan : saved.plans) {
    const auto packed = std::ranges::find_if(plans, [&](const PackedPlan& one) { return plan != nullptr && one.plan == plan; });
    std::vector<SavedWeight>& of_plan = weights.emplace_back();
    if (packed == plans.end()) continue;  // no such stage, or a plan that nothing runs
    of_plan = packed->form;
    for (size_t i = 0; i < of_plan.size(); ++i) of_plan[i].hash = of_plan[i].is_packed ? hash_of(packed->bytes[i]) : 0;
    bytes.insert(bytes.end(), packed->bytes.begin(), packed->bytes.end());
  }
  Header header;
  header.index_bytes = index_bytes(key, plan_text, weights).size();
  uint64_t end = aligned(sizeof header + header.index_bytes);
  for (std::vector<SavedWeight>& of_plan : weights) {
    for (SavedWeight& weight : of_plan) {
      if (!weight.is_packed) continue;
      weight.offset = end;
      end = aligned(end + weight.size_bytes);
    }
  }
  header.file_bytes = end;
  const std::string index = index_bytes(key, plan_text, weights);  // of the same size: numbers have fixed sizes
  header.hash = hash_of(header, std::as_bytes(std::span(index)));

  NewFile file(path);
  uint64_t written = 0;
  const auto write = [&](std::span<const std::byte> part) {
    static constexpr std::array<std::byte, kAlignment> kZeros = {};
    file.write(part);
    written += part.size();
    file.write(std::span(kZeros).first(aligned(written) - written));
    written = aligned(written);
  };
  file.write(std::as_bytes(std::span(&header, 1)));
  written = sizeof header;
  write(std::as_bytes(std::span(index)));
  for (const std::span<const std::byte>& weight : bytes) write(weight);
  file.commit();
}

CompiledIndex parse_compiled(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view name) {
  const ModelTensors none({});
  Header header;
  PlanReader reader(bytes, none, name);
  if (bytes.size() < sizeof header) reader.fail("it ends before its contents do");
  std::memcpy(&header, reader.take(sizeof header).data(), sizeof header);
  if (header.magic != kMagic) reader.fail("this is not a compiled model saved by Kvik");
  if (header.version != kCompiledVersion)
    reader.fail(fmt::format("it has version {}; version {} was expected", header.version, kCompiledVersion));
  if (header.file_bytes != file_bytes) reader.fail(fmt::format("it has {} bytes; {} were written", file_bytes, header.file_bytes));
  if (header.index_bytes > bytes.size() - sizeof header) reader.fail("it ends before its contents do");
  const std::span<const std::byte> index = reader.take(header.index_bytes);
  if (hash_of(header, index) != header.hash) reader.fail("its checksum does not match its contents");

  PlanReader fields(index, none, name);
  CompiledIndex parsed;
  fields.text(parsed.key);
  fields.text(parsed.model);
  fields.text(parsed.plans);
  parsed.weights.resize(std::min<size_t>(fields.count(), 8));
  for (std::vector<SavedWeight>& of_plan : parsed.weights) {
    const size_t n = fields.count();
    if (n > kMostWeights) fields.fail("it has too many weights");
    for (size_t i = 0; i < n; ++i) {
      SavedWeight& weight = of_plan.emplace_back();
      weight_fields(fields, weight);
      const bool inside = weight.offset % kAlignment == 0 && weight.offset <= file_bytes && weight.size_bytes <= file_bytes - weight.offset;
      if (!inside) fields.fail("a weight is outside of the file");
    }
  }
  if (!fields.at_end()) fields.fail("its index is longer than its contents");
  return parsed;
}

CompiledModel read_compiled(const std::filesystem::path& path, const CompiledKey& key, const analysis::Signature& signature,
                            const StageOptions& options, WeightChoice weights) {
  CompiledModel compiled;
  compiled.file = MappedFile::open(path);
  const CompiledIndex index = index_of(*compiled.file);
  if (index.key != key.text)
    throw Error(Code::kBadArgument, fmt::format("{}: it belongs to another model or other options", path.string()));
  compiled.saved = parse_plans(std::as_bytes(std::span(index.plans)), plan_models(signature), path.string());
  compiled.stages = stages_of(compiled.saved, signature, options, path.string());
  if (index.weights.size() != compiled.saved.plans.size())
    throw Error(Code::kBadArgument, fmt::format("{}: the numbers of plans and of lists of weights differ", path.string()));
  for (size_t i = 0; i < index.weights.size(); ++i) {
    std::vector<LoadedWeight>& of_plan = compiled.weights.emplace_back();
    const std::shared_ptr<const Plan>& plan = compiled.saved.plans[i];
    if (plan != nullptr) of_plan = map_weights(*plan, weights, index.weights[i], compiled.file);
  }
  return compiled;
}

void read_ahead(const MappedFile& file, const std::stop_token& stop) {
  constexpr size_t kStep = size_t{16} << 20;
  std::span<const std::byte> bytes = file.bytes();
  while (!bytes.empty() && !stop.stop_requested()) {
    const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), kStep));
    madvise(const_cast<std::byte*>(part.data()), part.size(), MADV_WILLNEED);  // a hint
    bytes = bytes.subspan(part.size());
  }
}

std::string model_of_compiled(const std::filesystem::path& path) { return index_of(*MappedFile::open(path)).model; }

void check_compiled(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  for (const std::vector<SavedWeight>& of_plan : index_of(*file).weights) {
    for (const SavedWeight& weight : of_plan) {
      if (!weight.is_packed) continue;
      const std::span<const std::byte> bytes = file->bytes().subspan(weight.offset, weight.size_bytes);
      const bool unchanged = hash_of(bytes) == weight.hash;
      drop_pages(bytes);
      if (!unchanged) throw Error(Code::kBadArgument, fmt::format("{}: the bytes of a weight have changed", path.string()));
    }
  }
}

}  // namespace kvik::native
