#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/native/execute/device/device_program.h"

namespace kvik::native {

// Predicts the rows of the next call: after some calls in which every sequence continued with its largest logit, the next one probably does
// so too. Its steps can then be started before the host has read the logits, with tokens that are on the device already, so that the device
// does not wait for the host between two calls.
class RunAhead {
 public:
  // A call of these rows begins.
  void begin(std::span<const device::Row> rows);
  // Its rows' largest logits; negative: not known.
  void end(std::span<const int32_t> chosen) { chosen_.assign(chosen.begin(), chosen.end()); }
  // All rows have continued with the largest logits often enough to start the next call.
  bool is_likely() const { return n_continued_ >= n_wanted_; }

  // ---- the call that was started
  struct Started {
    DeviceProgram* program = nullptr;  // null: none was
    std::vector<device::Row> rows;     // without tokens
    uint64_t n_page_writes = 0;        // SharedDevice's, when it was started
  };
  const Started& started() const { return started_; }
  std::vector<device::Row>& next_rows() { return started_.rows; }  // of the call that will be started
  void start(DeviceProgram& program, uint64_t n_page_writes) { started_.program = &program, started_.n_page_writes = n_page_writes; }
  bool has_rows(std::span<const device::Row> rows) const;  // the started call has these rows and tokens
  void hit();
  void miss();
  void forget() { started_.program = nullptr, n_continued_ = 0, rows_.clear(); }

 private:
  bool continues(std::span<const device::Row> rows) const;

  std::vector<device::Row> rows_;  // of the last call
  std::vector<int32_t> chosen_;
  int n_continued_ = 0;  // calls
  int n_wanted_ = 2;
  int n_hits_ = 0;  // since the last miss
  Started started_;
};

}  // namespace kvik::native
