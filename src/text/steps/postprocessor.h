#pragma once

#include <memory>
#include <vector>

#include "base/token.h"

namespace kvik::text {

// Adds special tokens around the ids of a text. Immutable: any thread may call.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // As in the reference, a list of parts: one at first, more after a template.
  using Parts = std::vector<std::vector<TokenId>>;
  virtual void apply(Parts& parts, bool add_special) const = 0;
};

using PostProcessors = std::vector<std::unique_ptr<const PostProcessor>>;

// An item of a template: the ids of a special token, or one of the parts.
struct TemplatePlace {
  static constexpr int kSpecial = -1;
  int part = kSpecial;
  std::vector<TokenId> ids;
};

std::unique_ptr<const PostProcessor> make_template(std::vector<TemplatePlace> single, std::vector<TemplatePlace> pair);
// `first` before the first part, `last` after each.
std::unique_ptr<const PostProcessor> make_enclosing(TokenId first, TokenId last);

}  // namespace kvik::text
