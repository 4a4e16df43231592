#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/scratch.h"
#include "text/regex/regex.h"

namespace kvik::text {

// A part of a text, for the next pre-tokenizer or the model.
struct Piece {
  std::string_view text;
  size_t n_at_start;  // how many of its first bytes come from the very first character of the user's text
  // The part [begin, end) of it.
  Piece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), n_at_start > begin ? std::min(n_at_start, end) - begin : 0};
  }
};

// Receives pieces one by one; a piece is valid only during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const Piece& piece) = 0;
};

// Splits a piece into pieces, independent of other pieces. Immutable: any thread may call.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // `piece` is not empty; `sink` drops empty parts. `buffer` belongs to this step.
  virtual void split(const Piece& piece, Scratch& scratch, std::string& buffer, PieceSink& sink) const = 0;
};

using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

// Runs `piece` through all steps; `last` gets no empty piece. `first_counter`: of the steps in scratch.growth.
void run_steps(const PreTokenizers& steps, const Piece& piece, Scratch& scratch, size_t first_counter, PieceSink& last);

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kFirst, kNever, kAlways };

std::unique_ptr<const PreTokenizer> make_split(Regex pattern, SplitBehavior behavior, bool invert);
std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);
std::unique_ptr<const PreTokenizer> make_digits(bool individual);
std::unique_ptr<const PreTokenizer> make_punctuation(SplitBehavior behavior);
std::unique_ptr<const PreTokenizer> make_white_space_words();  // \w+|[^\w\s]+
std::unique_ptr<const PreTokenizer> make_white_space_split();
std::unique_ptr<const PreTokenizer> make_white_space_and_punctuation();
std::unique_ptr<const PreTokenizer> make_unicode_scripts();
std::unique_ptr<const PreTokenizer> make_delimiter(char32_t delimiter);
std::unique_ptr<const PreTokenizer> make_fixed_length(size_t n_characters);
// The parts of the byte-level step: prefix space, split by its pattern, byte alphabet.
std::unique_ptr<const PreTokenizer> make_prefix_space();
std::unique_ptr<const PreTokenizer> make_byte_level_split();
std::unique_ptr<const PreTokenizer> make_byte_level_characters();

}  // namespace kvik::text
