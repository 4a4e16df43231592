#pragma once

#include <fmt/format.h>

#include "backend/native/plan/plan.h"

namespace kvik::native {

inline constexpr int64_t kLargestSize = int64_t{1} << 31;  // limit for any size in a plan: products of two do not overflow

template <class T>
bool is_index(int64_t i, const std::vector<T>& of) {
  return i >= 0 && i < static_cast<int64_t>(of.size());
}

// The part of check_plan() that checks the inputs and outputs of ops, in order. Messages name values, constants and tables as `kvik inspect
// --plan` prints them: %3, c3, t3.
class OpCheck {
 public:
  explicit OpCheck(const Plan& plan);
  void run();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  // The message states what was found and what was expected. Its arguments are evaluated even if the check passes.
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (!holds) fail(fmt::format(text, std::forward<Args>(args)...));
  }

  void check_given();
  void add_given(const char* what, ValueIndex value, std::initializer_list<DType> dtypes, Op::Section section);
  void check_links();
  void check_input(const Input& input) const;
  void check_output() const;

  int64_t whole_size(const Input& input) const;  // size of the value, constant or table that the input is a part of; checks its index
  DType dtype(const Input& input) const;
  // Input i exists and is f32 with this size; -1: any size.
  void floats(size_t i, int64_t size = -1) const;
  void optional_floats(size_t i, int64_t size) const;
  int64_t size(size_t i) const { return op_->in[i].size; }
  void counts(size_t n_inputs, size_t n_outputs) const;
  int64_t out_floats(size_t i = 0) const;  // checks that output i exists and is f32; returns its size
  void out_floats_are(int64_t size, size_t i = 0) const;
  void groups(int64_t n_groups, int64_t n) const;
  void spread(size_t i, Spread how, int64_t n_groups, int64_t n) const;
  const PlanWeight& weight(int i) const;
  const AttentionSpec& attention(int i) const;
  const Plan::PlanRegister& state_register(int i) const;
  void require_section(Op::Section expected) const;

  void check(const Embed& args) const;
  void check(const Matmul& args) const;
  void check(const UnaryOp& args) const;
  void check(const BinaryOp& args) const;
  void check(const GateOp& args) const;
  void check(const ClipOp& args) const;
  void check(const WhereOp& args) const;
  void check(const NormOp& args) const;
  void check(const SkipNormOp& args) const;
  void check(const SoftmaxOp& args) const;
  void check(const ReduceOp& args) const;
  void check(const RotaryOp& args) const;
  void check(const Move& args) const;
  void check(const AppendOp& args) const;
  void check(const AttendOp& args) const;
  void check(const ReadRegister& args) const;
  void check(const WriteRegister& args) const;
  void check(const ReferenceOp& args) const;

  const Plan& plan_;
  const Op* op_ = nullptr;
  // By value: the section that computes it; nullopt: not computed yet.
  std::vector<std::optional<Op::Section>> made_in_;
};

}  // namespace kvik::native
