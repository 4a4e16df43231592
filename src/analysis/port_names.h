#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Roles suggested by names. Names decide only if dataflow and shapes leave a choice.
namespace kvik::analysis {

// A name split at punctuation, digits and changes of case.
struct NameParts {
  std::vector<std::string> words;  // lower case
  std::vector<int> numbers;

  bool has(std::string_view word) const;
  bool has_any(std::initializer_list<std::string_view> list) const;
};
NameParts name_parts(std::string_view name);

enum class NameKind { kNothing, kKey, kValue, kKeyValue, kRecurrent };

// What the name of a state suggests.
struct StateName {
  NameKind kind = NameKind::kNothing;
  std::string flavor;  // of a recurrent state: "conv", "ssm" …, distinguishes two states of one layer
  bool cross = false;
  std::optional<int> layer;
  bool looks_like_state = false;  // contains a word that is typical of states

  bool same_state(const StateName& other) const {
    return kind == other.kind && flavor == other.flavor && cross == other.cross && layer == other.layer;
  }
};
StateName state_name(std::string_view name);

// What the name of a control input suggests.
enum class NameHint {
  kNothing,
  kTokens,
  kEmbeds,
  kMask,
  kEncoderMask,
  kPositions,
  kSegments,
  kUseCache,
  kLogitsToKeep,
  kCachePosition,
  kWriteIndices,
  kLength,
  kEncoderHidden,
  kAudio,
  kPixels,
};
NameHint name_hint(std::string_view name);

}  // namespace kvik::analysis
