// Runs many small decoders in one process and reports where two ways to compute the same logits differ.
//
//   {"path": FILE, "ids": [...], "truth": FILE of f32 [rows, vocab], "tolerance": X, "native": BOOL}     a line in
//   {"path": FILE, "problems": [...], "refused": SENTENCE or null, "native_error": X, "reference_error": X}  a line out
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <iostream>

#include "api/load.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "engine/sequence.h"
#include "kvik/error.h"

namespace kvik {
namespace {

using Rows = std::vector<std::vector<float>>;

double spread_of(const Rows& rows) {
  double sum = 0, squares = 0, n = 0;
  for (const auto& row : rows) {
    for (const float value : row) sum += value, squares += static_cast<double>(value) * value, n += 1;
  }
  return std::sqrt(std::max(1e-30, squares / n - (sum / n) * (sum / n)));
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double here = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!std::isfinite(here)) return INFINITY;
    largest = std::max(largest, here);
  }
  return largest;
}

double difference(const Rows& a, const Rows& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, difference(a[i], b[i]));
  return largest;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  std::string path;
  std::vector<TokenId> ids;
  Rows truth;
  double tolerance = 1e-3;
  bool native = false;
};

Case read_case(const Json& json) {
  Case one{json.at("path"), json.at("ids").get<std::vector<TokenId>>(), {}, json.at("tolerance"), json.at("native")};
  const std::shared_ptr<const MappedFile> file = MappedFile::open(json.at("truth").get<std::string>());
  const size_t row_bytes = file->bytes().size() / one.ids.size();
  for (size_t i = 0; i < one.ids.size(); ++i) {
    std::vector<float> row(row_bytes / sizeof(float));
    std::memcpy(row.data(), file->bytes().data() + i * row_bytes, row_bytes);
    one.truth.push_back(std::move(row));
  }
  return one;
}

std::shared_ptr<backend::Backend> open(const analysis::Signature& signature, BackendChoice choice, int threads) {
  LoadOptions options;
  options.backend = choice;
  options.threads = threads;
  return api::open_backend(signature, options, api::read_environment(), {});
}

class Comparison {
 public:
  explicit Comparison(Case one) : case_(std::move(one)), spread_(spread_of(case_.truth)) {}

  Json run() {
    answer_ = {{"path", case_.path}, {"problems", Json::array()}, {"refused", nullptr}};
    try {
      const analysis::Signature signature = analysis::analyze(case_.path);
      reference(open(signature, BackendChoice::kReference, 1));
      if (case_.native) native(signature);
    } catch (const Error& e) { problem(e.what()); }
    return answer_;
  }

 private:
  void problem(const std::string& sentence) { answer_["problems"].push_back(sentence); }

  Rows whole(const std::shared_ptr<backend::Backend>& backend) const {
    Rows rows;
    engine::Sequence sequence(backend, 0);
    if (sequence.append_and_see(case_.ids, [&](int, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); }) !=
        AppendStatus::kDone)
      throw Error(Code::kTooLarge, "the prompt does not fit into the context");
    return rows;
  }

  std::vector<float> after(engine::Sequence& sequence, size_t to) const {
    const auto from = static_cast<size_t>(sequence.length());
    if (sequence.append(std::span(case_.ids).subspan(from, to - from)) != AppendStatus::kDone)
      throw Error(Code::kTooLarge, "the prompt does not fit into the context");
    return {sequence.logits().begin(), sequence.logits().end()};
  }

  void expect(const std::vector<float>& found, const std::vector<float>& expected, bool exactly, const std::string& what) {
    if (exactly ? equal_bits(found, expected) : difference(found, expected) <= case_.tolerance * spread_) return;
    problem(fmt::format("{}: logits differ by {:.3g} of their spread", what, difference(found, expected) / spread_));
  }

  // The prompt in pieces, token by token, rewound, forked, and three lengths in one call.
  void laws(const std::shared_ptr<backend::Backend>& backend, const Rows& rows, bool exactly) {
    const std::string& name = backend->traits().name;
    const size_t n = case_.ids.size();
    engine::Sequence steps(backend, 0), pieces(backend, 0);
    for (size_t i = 1; i <= n; ++i) expect(after(steps, i), rows[i - 1], exactly, fmt::format("{}, token by token, row {}", name, i));
    for (const size_t to : {n / 3, n / 3 + 1, n})
      expect(after(pieces, to), rows[to - 1], exactly, fmt::format("{}, in pieces, row {}", name, to));
    engine::Sequence branch = pieces.fork();
    pieces.rewind(static_cast<int>(n / 2));
    expect(after(pieces, n), rows[n - 1], exactly, fmt::format("{}, rewound to {}", name, n / 2));
    branch.rewind(2);
    expect(after(branch, 3), rows[2], exactly, fmt::format("{}, forked and rewound", name));
    batch(backend, rows, exactly);
  }

  void batch(const std::shared_ptr<backend::Backend>& backend, const Rows& rows, bool exactly) {
    std::vector<engine::Sequence> sequences;
    std::vector<engine::Sequence*> pointers;
    std::vector<TokenId> next;
    for (const size_t length : {size_t{1}, case_.ids.size() / 2, case_.ids.size() - 1}) {
      sequences.emplace_back(backend, 0);
      after(sequences.back(), length);
      next.push_back(case_.ids[length]);
    }
    for (engine::Sequence& sequence : sequences) pointers.push_back(&sequence);
    if (engine::Sequence::append_each(pointers, next) != AppendStatus::kDone)
      throw Error(Code::kTooLarge, "the prompt does not fit into the context");
    for (engine::Sequence& sequence : sequences) {
      const auto length = static_cast<size_t>(sequence.length());
      expect({sequence.logits().begin(), sequence.logits().end()}, rows[length - 1], exactly,
             fmt::format("{}, three together, row {}", backend->traits().name, length));
    }
  }

  void reference(const std::shared_ptr<backend::Backend>& backend) {
    const Rows rows = whole(backend);
    const double error = difference(rows, case_.truth) / spread_;
    answer_["reference_error"] = error;
    if (error > case_.tolerance) problem(fmt::format("reference: logits differ from ONNX Runtime's by {:.3g} of their spread", error));
    laws(backend, rows, false);
  }

  void native(const analysis::Signature& signature) {
    std::shared_ptr<backend::Backend> one, two;
    try {
      one = open(signature, BackendChoice::kNative, 1);
      two = open(signature, BackendChoice::kNative, 2);
    } catch (const Error& e) {
      answer_["refused"] = e.what();
      return;
    }
    const Rows rows = whole(one);
    const double error = difference(rows, case_.truth) / spread_;
    answer_["native_error"] = error;
    if (error > case_.tolerance) problem(fmt::format("native: logits differ from ONNX Runtime's by {:.3g} of their spread", error));
    laws(one, rows, true);
    const Rows threaded = whole(two);
    for (size_t i = 0; i < rows.size(); ++i) expect(threaded[i], rows[i], true, fmt::format("native, two threads, row {}", i + 1));
  }

  Case case_;
  double spread_;
  Json answer_;
};

}  // namespace
}  // namespace kvik

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << kvik::Comparison(kvik::read_case(kvik::Json::parse(line))).run().dump() << std::endl;
    } catch (const std::exception& e) {
      std::cerr << e.what() << "\n";
      return 1;
    }
  }
  return 0;
}
