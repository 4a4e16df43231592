#pragma once

#include <vector>

#include "backend/native/plan/plan.h"
#include "kernels/cpu/attention.h"

namespace kvik::native {

// What one attention of a plan computes, as the kernels read it: a view of the spec, whose page_offset is 0.
cpu::Attention cpu_attention(const AttentionSpec& attend, cpu::KvFormat format);

// The attentions of a plan as the kernels want them, and where each lies in a page.
struct AttendLayouts {
  std::vector<cpu::Attention> of_attend;  // page_offset: in pages of the sequence, or of the source
  int64_t page_bytes = 0;                 // of a sequence's page: all its layers
  int64_t source_page_bytes = 0;
};
AttendLayouts cache_layout(const Plan& plan, cpu::KvFormat format);

}  // namespace kvik::native
