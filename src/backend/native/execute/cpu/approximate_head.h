#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/native/execute/cpu/cpu_plan.h"
#include "base/token_logit.h"

namespace kvik::native {

// The product that computes the logits, with a copy of its matrix in 8 bits. The copy tells, within a bound of its error, which tokens may
// have the largest logit; only theirs are then computed, with the bits that the whole product would give them. So a step of greedy search
// reads about a quarter of the matrix. Does not change; any thread.
class ApproximateHead {
 public:
  // For plans that end in a product by f32 weights of a size for which it pays; otherwise null. Quantizes the matrix.
  static std::shared_ptr<const ApproximateHead> make(const CpuPlan& plan, ThreadPool& pool);

  OpIndex op() const { return op_; }
  const Input& input() const { return input_; }
  int64_t k() const { return exact_.packed.layout.k; }
  int64_t n() const { return exact_.packed.layout.n; }
  int64_t n_panels() const { return exact_.packed.layout.n_panels; }
  static constexpr int64_t kPanel = 32;                     // logits that are computed together
  int64_t padded_n() const { return n_panels() * kPanel; }  // of rows of logits
  int64_t unread_bytes() const { return exact_.packed.layout.size_bytes - approximate_.view.layout.size_bytes; }  // of the matrix, mostly
  size_t quantized_bytes(int64_t n_rows) const;  // enough for rows together, and for each by itself

  // Of approximations of all logits of some rows, the largest of each panel. `quantized`: quantized_bytes(n_rows) of memory. errors[row]:
  // how much an approximation differs from its logit at most; not finite if that is unknown.
  struct Approximations {
    float* maxima;  // [n_rows][n_panels()]
    std::byte* quantized;
    std::span<float> errors;  // [n_rows]
  };
  void approximate(ThreadPool& pool, const cpu::FloatRows& x, const Approximations& to) const;

  // The largest logit of a row and all that equal it, in the order of the ids. None if the error is unknown, or if so many may be the
  // largest that the whole product takes no longer.
  struct Row {
    const float* x;
    std::span<const float> maxima;  // [n_panels()], of its approximations
    float error;
  };
  void find_largest(const Row& row, std::vector<TokenLogit>& found) const;

  void multiply(const float* x, float* logits) const;  // all logits of a row

 private:
  ApproximateHead(const CpuPlan& plan, OpIndex op, ThreadPool& pool);
  void measure(ThreadPool& pool);
  float error_of(const float* x, const cpu::QuantizedRows& rows, int64_t row) const;
  void find_chunk_maxima(const cpu::QuantizedRows& rows, int64_t chunk, float* maxima) const;
  bool find_in_panel(int64_t panel, const float* x, std::vector<TokenLogit>& found) const;

  std::shared_ptr<const Plan> plan_;  // owns the bias
  OpIndex op_;
  Input input_;
  LoadedWeight exact_;
  const float* bias_;
  const cpu::CpuKernels& kernels_;
  cpu::Weights approximate_;
  // The largest of all columns: length of the difference between column and copy, length of the copy, magnitude of the bias.
  double difference_ = 0, length_ = 0, largest_bias_ = 0;
};

}  // namespace kvik::native
