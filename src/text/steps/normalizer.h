#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/scratch.h"
#include "text/regex/regex.h"
#include "text/unicode/charsmap.h"
#include "text/unicode/unicode.h"

namespace kvik::text {

// The part of a text between two added tokens, while it is normalized.
struct Stretch {
  std::string text;
  // How many of the first bytes come from the very first character of the user's text: some pre-tokenizers depend on whether a piece
  // begins there.
  size_t n_at_start = 0;
  size_t max_bytes = std::string::npos;  // a normalizer that would make `text` longer throws; see GrowthLimit
};

// Rewrites text. Immutable: any thread may call.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `stretch.text` is valid UTF-8 and stays so.
  virtual void apply(Stretch& stretch, Scratch& scratch) const = 0;
};

using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;

std::unique_ptr<const Normalizer> make_form(unicode::Form form);
std::unique_ptr<const Normalizer> make_lowercase();
std::unique_ptr<const Normalizer> make_strip(bool left, bool right);
std::unique_ptr<const Normalizer> make_strip_accents();
std::unique_ptr<const Normalizer> make_nmt();
std::unique_ptr<const Normalizer> make_prepend(std::string prefix);
std::unique_ptr<const Normalizer> make_replace_text(std::string_view what, std::string with);
std::unique_ptr<const Normalizer> make_replace_pattern(Regex what, std::string with);
std::unique_ptr<const Normalizer> make_charsmap(Charsmap charsmap);
std::unique_ptr<const Normalizer> make_byte_level_normalizer();

struct CleanOptions {
  bool clean_text = true;
  bool space_chinese = true;
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<const Normalizer> make_clean(CleanOptions options);

}  // namespace kvik::text
