#include "text/stream.h"

#include "text/tokenizer_core.h"

namespace kvik::text {

DetokenizerStream::DetokenizerStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), text_(std::make_unique<std::string>()) {}
DetokenizerStream::DetokenizerStream(DetokenizerStream&&) noexcept = default;
DetokenizerStream& DetokenizerStream::operator=(DetokenizerStream&&) noexcept = default;
DetokenizerStream::~DetokenizerStream() = default;

std::string_view DetokenizerStream::push(TokenId id) {
  text_->clear();
  if (run_ == nullptr) run_ = tokenizer_->core().start_decoding(skip_special_, *text_);
  run_->push(id);
  return *text_;
}

std::string_view DetokenizerStream::flush() {
  text_->clear();
  if (run_ == nullptr) run_ = tokenizer_->core().start_decoding(skip_special_, *text_);
  run_->finish();
  run_.reset();
  return *text_;
}

}  // namespace kvik::text
