// A model that starts from the compile cache is the compiled one, bit for bit. A file that is anything else is not used.
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "backend/native/compile_cache.h"
#include "kvik/error.h"
#include "support/models.h"
#include "support/paths.h"

namespace kvik::native {
namespace {

namespace fs = std::filesystem;
using kvik::testing_support::fixtures;
using kvik::testing_support::TemporaryFolder;

std::string contents_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // a mapped file is never overwritten
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class CompileCacheTest : public testing::Test {
 protected:
  CompileCacheTest() : model_(folder_.path() / "model"), cache_{.folder = folder_.path() / "cache" / "kvik", .min_model_bytes = 0} {
    fs::copy(fixtures() / "zoo" / "qwen2", model_, fs::copy_options::recursive);
  }

  // Logits of a short prompt; the log receives the messages of loading. The file is written when this returns.
  std::vector<float> logits(WeightChoice weights = WeightChoice::kAsStored, const std::string& isa = {}) {
    said_.clear();
    std::mutex mutex;
    const Log log([&](LogLevel, std::string_view message) {
      const std::lock_guard lock(mutex);
      said_ += std::string(message) + "\n";
    });
    backend::NativeOptions options{.weights = weights, .isa = isa, .n_threads = 2, .no_fuse = no_fuse_, .compile_cache = cache_};
    const std::unique_ptr<backend::Backend> backend = backend::make_native_backend(analysis::analyze(model_), options, log);
    const std::unique_ptr<backend::Cache> cache = backend->new_cache();
    backend::Cache* const caches[] = {cache.get()};
    std::vector<backend::Row> rows;
    for (int i = 0; i < 9; ++i) rows.push_back({(i * 7 + 5) % backend->traits().vocab, i, 0, true});
    backend::Logits result;
    EXPECT_EQ(backend->run(rows, caches, result), backend::RunStatus::kDone);
    std::vector<float> all;
    for (int i = 0; i < result.n_rows(); ++i) all.insert(all.end(), result.row(i).begin(), result.row(i).end());
    return all;
  }
  bool started_from_cache() const { return said_.find("from the compile cache") != std::string::npos; }
  fs::path only_file() const {
    const std::vector<CompiledFile> files = list_compile_cache(cache_);
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files.front().path;
  }

  TemporaryFolder folder_;
  fs::path model_;
  CompileCache cache_;
  std::vector<std::string> no_fuse_;
  std::string said_;
};

TEST_F(CompileCacheTest, StartedFromTheCacheIsTheCompiledModelInEveryFormat) {
  for (const WeightChoice weights :
       {WeightChoice::kAsStored, WeightChoice::kF32, WeightChoice::kF16, WeightChoice::kQ8, WeightChoice::kQ4}) {
    const std::vector<float> compiled = logits(weights);
    EXPECT_FALSE(started_from_cache());
    EXPECT_EQ(logits(weights), compiled);
    EXPECT_TRUE(started_from_cache()) << said_;
    EXPECT_EQ(logits(weights, "scalar"), compiled);
    EXPECT_TRUE(started_from_cache()) << said_;
  }
  EXPECT_EQ(list_compile_cache(cache_).size(), 5u);
  EXPECT_THAT(check_compile_cache(cache_), testing::IsEmpty());
  EXPECT_THAT(list_compile_cache(cache_).front().model, testing::EndsWith("model, q4"));
}

TEST_F(CompileCacheTest, QuantizedExportsStartFromIt) {
  for (const char* name : {"llama-q4", "llama-int8", "qwen2-genai-int4", "small-hand", "small-merged"}) {
    if (!fs::exists(fixtures() / "zoo" / name)) continue;
    model_ = fixtures() / "zoo" / name;
    const std::vector<float> compiled = logits();
    EXPECT_EQ(logits(), compiled) << name;
    EXPECT_TRUE(started_from_cache()) << name << said_;
  }
}

TEST_F(CompileCacheTest, OtherOptionsUseAnotherFile) {
  const std::vector<float> compiled = logits();
  no_fuse_ = {"norm"};
  logits();
  EXPECT_FALSE(started_from_cache());
  EXPECT_EQ(list_compile_cache(cache_).size(), 2u);
  no_fuse_ = {};
  EXPECT_EQ(logits(), compiled);
  EXPECT_TRUE(started_from_cache());
}

TEST_F(CompileCacheTest, AChangedModelIsCompiledAgain) {
  const std::vector<float> before = logits();
  const fs::path file = model_ / "model.onnx";
  const fs::file_time_type modified = fs::last_write_time(file);
  std::string bytes = contents_of(file);
  // One weight, far from both ends, in a file of the same size and time.
  const analysis::Signature signature = analysis::analyze(model_);
  std::string_view largest;
  for (const onnx::TensorData& tensor : signature.files.front().model->graph->initializers) {
    if (tensor.stored.size() > largest.size()) largest = tensor.stored;
  }
  const size_t at = bytes.find(largest) + largest.size() / 8 * 4 + 3;
  bytes[at] = static_cast<char>(bytes[at] ^ 0x02);
  write(file, bytes);
  fs::last_write_time(file, modified);
  logits();
  EXPECT_FALSE(started_from_cache());
}

// Whatever the file has become: the model is compiled, with its own logits, or the file still is what was written.
TEST_F(CompileCacheTest, DamagedFilesAreCompiledAgain) {
  const std::vector<float> compiled = logits();
  const fs::path path = only_file();
  const std::string whole = contents_of(path);
  const auto expect_compiled = [&](std::string_view bytes) {
    write(path, bytes);
    EXPECT_EQ(logits(), compiled);
    EXPECT_FALSE(started_from_cache());
    EXPECT_THAT(said_, testing::HasSubstr("the compile cache is not used"));
    EXPECT_EQ(contents_of(path), whole);  // written again
  };
  for (const size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{500}, whole.size() / 2, whole.size() - 1})
    expect_compiled(whole.substr(0, size));
  expect_compiled(whole + "x");
  for (const size_t at : {size_t{0}, size_t{17}, size_t{25}, size_t{33}, size_t{41}, size_t{60}, size_t{64}, size_t{100}, size_t{900}}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    expect_compiled(flipped);
  }
}

TEST_F(CompileCacheTest, CheckingFindsAWeightThatHasChanged) {
  logits();
  const fs::path path = only_file();
  std::string bytes = contents_of(path);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write(path, bytes);
  EXPECT_EQ(check_compile_cache(cache_).size(), 1u);
  EXPECT_FALSE(fs::exists(path));
}

// Whoever can write a file can write its checksum too: an index of any bytes is refused, or maps weights within the file.
TEST_F(CompileCacheTest, AnIndexOfAnyBytesStaysInTheFile) {
  const analysis::Signature signature = analysis::analyze(model_);
  logits();
  const fs::path path = only_file();
  const std::string whole = contents_of(path);
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const CompiledIndex index = parse_compiled(file->bytes(), file->size_bytes(), "a file");
  const SavedPlans saved = parse_plans(std::as_bytes(std::span(index.plans)), plan_models(signature), "a file");
  std::mt19937_64 random(7);
  int n_mapped = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<SavedWeight> weights = index.weights.front();
    SavedWeight& one = weights[random() % weights.size()];
    switch (random() % 6) {
      case 0: one.offset = random() % 3 == 0 ? random() : random() % (2 * whole.size()) / 64 * 64; break;
      case 1: one.size_bytes = random() % 3 == 0 ? random() : random() % whole.size(); break;
      case 2: one.is_packed = !one.is_packed; break;
      case 3: one.blocks.block = static_cast<int>(random()); break;
      case 4: one.blocks.bits = static_cast<int>(random() % 10); break;
      default: one.blocks.zero_points = !one.blocks.zero_points; break;
    }
    try {
      for (const LoadedWeight& weight : map_weights(*saved.plans.front(), WeightChoice::kAsStored, weights, file)) {
        if (!weight.is_packed()) continue;
        const std::byte* data = weight.packed.data;
        EXPECT_GE(data, file->bytes().data());
        EXPECT_LE(data + weight.packed.layout.size_bytes, file->bytes().data() + file->size_bytes());
      }
      ++n_mapped;
    } catch (const Error&) {}
  }
  EXPECT_GT(n_mapped, 10);
}

TEST_F(CompileCacheTest, TheLeastRecentlyUsedFileIsDeletedFirst) {
  logits(WeightChoice::kF32);
  const fs::path f32 = only_file();
  logits(WeightChoice::kF16);
  cache_.max_bytes = uint64_t{1} << 20;  // and what is there
  for (const CompiledFile& file : list_compile_cache(cache_)) cache_.max_bytes += file.size_bytes;
  logits(WeightChoice::kF32);  // used again
  EXPECT_TRUE(started_from_cache());
  logits(WeightChoice::kQ8);
  EXPECT_TRUE(fs::exists(f32));
  std::vector<std::string> models;
  for (const CompiledFile& file : list_compile_cache(cache_)) models.push_back(file.model.substr(file.model.rfind(' ') + 1));
  EXPECT_THAT(models, testing::UnorderedElementsAre("f32", "q8"));
}

TEST_F(CompileCacheTest, ModelsThatAreTooLargeOrTooSmallAreNotCached) {
  cache_.max_bytes = 1000;
  logits();
  EXPECT_THAT(said_, testing::HasSubstr("not enough space"));
  cache_.max_bytes = 1 << 30, cache_.min_model_bytes = 1 << 30;
  logits();
  EXPECT_THAT(list_compile_cache(cache_), testing::IsEmpty());
}

TEST_F(CompileCacheTest, AFolderThatCannotBeWrittenIsAWarning) {
  write(folder_.path() / "file", "no folder");
  cache_.folder = folder_.path() / "file";
  const std::vector<float> compiled = logits();
  EXPECT_THAT(said_, testing::HasSubstr("are not cached"));
  cache_.folder = "/proc/kvik";
  EXPECT_EQ(logits(), compiled);
  EXPECT_THAT(said_, testing::HasSubstr("are not cached"));
}

TEST_F(CompileCacheTest, AFullDiskIsAWarning) {
  const std::vector<float> compiled = logits(WeightChoice::kF32);
  const fs::path path = only_file();
  fs::remove(path);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 20000, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(logits(WeightChoice::kF32), compiled);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(said_, testing::HasSubstr("are not cached"));
  EXPECT_TRUE(fs::is_empty(cache_.folder));
}

TEST_F(CompileCacheTest, SeveralProcessesStartAtOnce) {
  const std::vector<float> compiled = logits();
  clear_compile_cache(cache_);
  std::vector<pid_t> processes;
  for (int i = 0; i < 3; ++i) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) _exit(logits() == compiled && logits() == compiled && started_from_cache() ? 0 : 1);
    processes.push_back(process);
  }
  for (const pid_t process : processes) {
    int status = 1;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  only_file();
  EXPECT_THAT(check_compile_cache(cache_), testing::IsEmpty());
}

TEST_F(CompileCacheTest, ConcurrentWritersLeaveOneCompleteFile) {
  const std::vector<float> compiled = logits();
  clear_compile_cache(cache_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const backend::NativeOptions options{.n_threads = 1, .compile_cache = cache_};
      backend::make_native_backend(analysis::analyze(model_), options, {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(check_compile_cache(cache_), testing::IsEmpty());
  only_file();
  EXPECT_EQ(logits(), compiled);
  EXPECT_TRUE(started_from_cache());
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_.folder), {}), 1);  // no partial file is left
}

TEST_F(CompileCacheTest, ClearingDoesNotDisturbRunningModels) {
  const std::vector<float> compiled = logits();
  const backend::NativeOptions options{.n_threads = 1, .compile_cache = cache_};
  const std::unique_ptr<backend::Backend> backend = backend::make_native_backend(analysis::analyze(model_), options, {});
  EXPECT_GT(clear_compile_cache(cache_), 1000u);
  EXPECT_THAT(list_compile_cache(cache_), testing::IsEmpty());
  const std::unique_ptr<backend::Cache> cache = backend->new_cache();
  backend::Cache* const caches[] = {cache.get()};
  const backend::Row row{5, 0, 0, true};
  backend::Logits result;
  ASSERT_EQ(backend->run({&row, 1}, caches, result), backend::RunStatus::kDone);
  EXPECT_TRUE(std::ranges::equal(result.row(0), std::span(compiled).first(result.row(0).size())));
}

// A seed of another version would be refused before anything of it is read, and the fuzzer would test nothing.
TEST(CompiledSeeds, FuzzerSeedsHaveTheCurrentVersion) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(128, std::byte{7});
  const auto model = std::make_shared<onnx::Model>();
  model->graph = std::make_shared<onnx::Graph>();
  const auto plan = std::make_shared<Plan>();
  plan->file = "model.onnx";
  PackedPlan packed{.plan = plan};
  packed.form = {{}, {.is_packed = true, .size_bytes = bytes.size()}};
  packed.bytes = {{}, bytes};
  const SavedPlans saved{.options = "", .plans = {packed.plan, nullptr}, .refused = {"", ""}};
  write_compiled(folder.path() / "small", {.text = "key", .model = "model, q4"}, saved, {{"model.onnx", model}}, {packed});
  const std::string written = contents_of(folder.path() / "small");
  const fs::path seed = kvik::testing_support::source_root() / "fuzz" / "seeds" / "compiled_file" / "small";
  if (std::getenv("KVIK_WRITE_SEEDS") != nullptr) fs::create_directories(seed.parent_path()), write(seed, written);
  EXPECT_TRUE(contents_of(seed) == written) << "KVIK_WRITE_SEEDS=1 writes it again";
  EXPECT_EQ(parse_compiled(std::as_bytes(std::span(written)), written.size(), "small").weights.front().size(), 2u);
}

}  // namespace
}  // namespace kvik::native
