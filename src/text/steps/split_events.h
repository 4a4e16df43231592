#pragma once

#include "base/utf8.h"
#include "text/steps/pretokenizer.h"

namespace kvik::text {

// Converts the consecutive parts of a piece, matches and others, into pieces by a SplitBehavior.
class SplitEvents {
 public:
  SplitEvents(const Piece& piece, SplitBehavior behavior, PieceSink& sink) : piece_(piece), behavior_(behavior), sink_(sink) {}

  void add(size_t begin, size_t end, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::kIsolated: sink_.take(piece_.part(begin, end)); return;
      case SplitBehavior::kRemoved:
        if (!is_match) sink_.take(piece_.part(begin, end));
        return;
      case SplitBehavior::kContiguous: join(begin, end, is_match == last_match_); break;
      case SplitBehavior::kMergedWithPrevious: join(begin, end, is_match && !last_match_); break;
      case SplitBehavior::kMergedWithNext: join(begin, end, last_match_ && !is_match); break;
    }
    last_match_ = is_match;
  }

  void finish() {
    if (held_) sink_.take(piece_.part(begin_, end_));
    held_ = false;
  }

 private:
  void join(size_t begin, size_t end, bool joins) {
    if (held_ && joins) {
      end_ = end;
      return;
    }
    finish();
    begin_ = begin;
    end_ = end;
    held_ = true;
  }

  const Piece& piece_;
  SplitBehavior behavior_;
  PieceSink& sink_;
  size_t begin_ = 0, end_ = 0;
  bool held_ = false;
  bool last_match_ = false;
};

// Every character for which `matches` is true is a separate match.
template <class F>
void split_at_characters(const Piece& piece, SplitBehavior behavior, PieceSink& sink, F&& matches) {
  SplitEvents events(piece, behavior, sink);
  size_t begin = 0;
  const char* p = piece.text.data();
  const char* const end = p + piece.text.size();
  while (p < end) {
    const auto at = static_cast<size_t>(p - piece.text.data());
    const char32_t c = utf8::next(p);
    if (!matches(c)) continue;
    const auto after = static_cast<size_t>(p - piece.text.data());
    if (at > begin) events.add(begin, at, false);
    events.add(at, after, true);
    begin = after;
  }
  if (begin < piece.text.size()) events.add(begin, piece.text.size(), false);
  events.finish();
}

}  // namespace kvik::text
