#pragma once

#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/row_uses.h"

namespace kvik::cuda {

// Row steps: consecutive ones of the same rows share a launch.
class RowLowering {
 public:
  explicit RowLowering(LaunchList& list) : list_(list) {
    list.set_pending([this] { end(); });
  }
  RowLowering(const RowLowering&) = delete;
  RowLowering& operator=(const RowLowering&) = delete;
  ~RowLowering() { list_.set_pending({}); }
  bool add(const device::Step& step);  // false if it is not a row step

 private:
  void end();  // launches what was added
  void add(RowKind kind, const device::Rows& rows, std::span<const std::byte> step, const std::vector<MemoryUse>& uses,
           int64_t result_bytes);
  bool meets_earlier(const std::vector<MemoryUse>& uses) const;

  LaunchList& list_;
  RowProgram program_{};
  std::vector<MemoryUse> uses_;  // of its steps
  int64_t slot_bytes_ = 0;       // of the largest row that its steps read or write
};

}  // namespace kvik::cuda
