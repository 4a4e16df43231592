#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "backend/native/attention/numbering.h"
#include "backend/native/attention/probe_mask.h"

namespace kvik::native {

class MaskPatternCache {
 public:
  Numbering& numbering(const AttentionContext& context) {
    if (!numbering_) numbering_.emplace(context.labels);
    return *numbering_;
  }

  std::unordered_map<std::string, MaskPattern> rules;
  std::optional<int64_t> affordable;  // how far it is worth to look; later layers find much of it evaluated and would not tell

 private:
  std::optional<Numbering> numbering_;
};

}  // namespace kvik::native
