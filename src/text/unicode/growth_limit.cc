#include "text/unicode/growth_limit.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::text {

void GrowthLimit::refuse() {
  throw Error(Code::kBadModel, fmt::format("a step of the tokenizer expands a text to more than {} times its size and more than {} MB; "
                                           "check the replacements in the tokenizer's file",
                                           kMaxFactor, kAlwaysAllowed >> 20));
}

}  // namespace kvik::text
