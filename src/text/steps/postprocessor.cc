#include "text/steps/postprocessor.h"

#include <fmt/format.h>

#include "kvik/error.h"
#include "text/unicode/growth_limit.h"

namespace kvik::text {
namespace {

class Template final : public PostProcessor {
 public:
  Template(std::vector<TemplatePlace> single, std::vector<TemplatePlace> pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  void apply(Parts& parts, bool add_special) const override {
    if (parts.empty() || parts.size() > 2) {
      throw Error(Code::kUnsupported, fmt::format("a post-processor template has {} input parts; expected one or two", parts.size()));
    }
    Parts result;
    GrowthLimit growth;
    growth.start(0, 1);
    for (const std::vector<TokenId>& part : parts) growth.add_input(part.size() * sizeof(TokenId));
    const auto add = [&](const std::vector<TokenId>& ids) {
      growth.add(0, ids.size() * sizeof(TokenId));
      result.push_back(ids);
    };
    for (const TemplatePlace& place : parts.size() == 1 ? single_ : pair_) {
      if (place.part == TemplatePlace::kSpecial) {
        if (add_special) add(place.ids);
        continue;
      }
      if (static_cast<size_t>(place.part) >= parts.size()) {
        throw Error(Code::kBadModel, "the post-processor's template for one text uses a second one");
      }
      add(parts[static_cast<size_t>(place.part)]);
    }
    parts = std::move(result);
  }

 private:
  std::vector<TemplatePlace> single_, pair_;
};

class Enclosing final : public PostProcessor {
 public:
  Enclosing(TokenId first, TokenId last) : first_(first), last_(last) {}
  void apply(Parts& parts, bool add_special) const override {
    if (!add_special) return;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == 0) parts[i].insert(parts[i].begin(), first_);
      parts[i].push_back(last_);
    }
  }

 private:
  TokenId first_, last_;
};

}  // namespace

std::unique_ptr<const PostProcessor> make_template(std::vector<TemplatePlace> single, std::vector<TemplatePlace> pair) {
  return std::make_unique<Template>(std::move(single), std::move(pair));
}
std::unique_ptr<const PostProcessor> make_enclosing(TokenId first, TokenId last) { return std::make_unique<Enclosing>(first, last); }

}  // namespace kvik::text
