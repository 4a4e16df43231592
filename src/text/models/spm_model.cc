#include "text/models/spm_model.h"

#include <algorithm>
#include <cfloat>
#include <fmt/format.h>

#include "base/protobuf.h"
#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

enum class ModelField : protobuf::pbf_tag_type { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
enum class PieceField : protobuf::pbf_tag_type { kPiece = 1, kScore = 2, kType = 3 };
enum class TrainerField : protobuf::pbf_tag_type {
  kModelType = 3,
  kSpaceIsSuffix = 24,
  kByteFallback = 35,
  kUnknownSurface = 44,
  kBosPiece = 46,
  kEosPiece = 47
};
enum class NormalizerField : protobuf::pbf_tag_type { kCharsmap = 2, kDummyPrefix = 3, kExtraSpaces = 4, kEscapeSpaces = 5 };

// Fields with an unexpected wire type are skipped.
using protobuf::bytes_of;
using protobuf::kBytes;
using protobuf::kFixed32;
using protobuf::kVarint;
using protobuf::message_of;
using protobuf::tag_and_type;

// protozero's get_bool() reads a byte before it checks for the end.
template <class Message>
bool flag_of(Message& message) {
  return message.get_uint64() != 0;
}

}  // namespace

SpmModel::SpmModel(std::string_view bytes) {
  try {
    read(bytes);
  } catch (const protozero::exception&) { throw Error(Code::kBadModel, "not a SentencePiece model; the file may be truncated"); }
  index();
}

void SpmModel::read(std::string_view bytes) {
  auto message = message_of<ModelField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(ModelField::kPieces, kBytes): read_piece(bytes_of(message)); break;
      case tag_and_type(ModelField::kTrainer, kBytes): read_trainer(bytes_of(message)); break;
      case tag_and_type(ModelField::kNormalizer, kBytes): read_normalizer(bytes_of(message)); break;
      default: message.skip();
    }
  }
}

void SpmModel::read_piece(std::string_view bytes) {
  std::string_view piece;
  PieceData data;
  auto message = message_of<PieceField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(PieceField::kPiece, kBytes): piece = bytes_of(message); break;
      case tag_and_type(PieceField::kScore, kFixed32): data.score = message.get_float(); break;
      case tag_and_type(PieceField::kType, kVarint): data.kind = static_cast<Kind>(message.get_enum()); break;
      default: message.skip();
    }
  }
  const auto id = static_cast<int64_t>(pieces_.size());
  if (piece.empty() || !utf8::is_valid(piece)) throw Error(Code::kBadModel, fmt::format("piece {} is empty or not UTF-8", id));
  if (data.kind < Kind::kNormal || data.kind > Kind::kByte) throw Error(Code::kBadModel, fmt::format("piece {} has an unknown type", id));
  if (vocabulary_.find(piece) != kNoToken) throw Error(Code::kBadModel, fmt::format("the piece '{}' is in the model twice", piece));
  vocabulary_.add(piece, id);
  pieces_.push_back(data);
}

void SpmModel::read_trainer(std::string_view bytes) {
  auto message = message_of<TrainerField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(TrainerField::kModelType, kVarint): algorithm_ = static_cast<Algorithm>(message.get_enum()); break;
      case tag_and_type(TrainerField::kSpaceIsSuffix, kVarint): space_is_suffix_ = flag_of(message); break;
      case tag_and_type(TrainerField::kByteFallback, kVarint): byte_fallback_ = flag_of(message); break;
      case tag_and_type(TrainerField::kUnknownSurface, kBytes): unknown_surface_ = std::string(bytes_of(message)); break;
      case tag_and_type(TrainerField::kBosPiece, kBytes): bos_piece_ = std::string(bytes_of(message)); break;
      case tag_and_type(TrainerField::kEosPiece, kBytes): eos_piece_ = std::string(bytes_of(message)); break;
      default: message.skip();
    }
  }
  if (algorithm_ < Algorithm::kUnigram || algorithm_ > Algorithm::kCharacter) {
    throw Error(Code::kUnsupported, fmt::format("unknown SentencePiece model type {}", static_cast<int>(algorithm_)));
  }
}

void SpmModel::read_normalizer(std::string_view bytes) {
  auto message = message_of<NormalizerField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(NormalizerField::kCharsmap, kBytes): charsmap_ = Charsmap(bytes_of(message)); break;
      case tag_and_type(NormalizerField::kDummyPrefix, kVarint): add_dummy_prefix_ = flag_of(message); break;
      case tag_and_type(NormalizerField::kExtraSpaces, kVarint): remove_extra_spaces_ = flag_of(message); break;
      case tag_and_type(NormalizerField::kEscapeSpaces, kVarint): escape_spaces_ = flag_of(message); break;
      default: message.skip();
    }
  }
}

void SpmModel::index() {
  std::vector<std::pair<std::string_view, int32_t>> all, user_defined;
  lowest_ = FLT_MAX;
  highest_ = FLT_MIN;
  vocabulary_.for_each([&](std::string_view piece, TokenId id) {
    const PieceData& data = pieces_[static_cast<size_t>(id)];
    if (data.kind == Kind::kNormal) {
      lowest_ = std::min(lowest_, data.score);
      highest_ = std::max(highest_, data.score);
    }
    if (data.kind == Kind::kUnknown) unknown_ = id;
    if (data.kind == Kind::kUserDefined) user_defined.emplace_back(piece, id);
    if (data.kind == Kind::kNormal || data.kind == Kind::kUserDefined || data.kind == Kind::kUnused) all.emplace_back(piece, id);
  });
  if (unknown_ == kNoToken) throw Error(Code::kBadModel, "the SentencePiece model has no unknown piece; it may be truncated");
  trie_ = Trie::build(std::move(all));
  user_defined_ = Trie::build(std::move(user_defined));
  bos_ = vocabulary_.find(bos_piece_);
  eos_ = vocabulary_.find(eos_piece_);
}

TokenId SpmModel::id_of(std::string_view piece) const {
  const TokenId id = vocabulary_.find(piece);
  return id == kNoToken ? unknown_ : id;
}

size_t SpmModel::user_defined_prefix(std::string_view text) const {
  if (user_defined_.empty()) return 0;
  size_t longest = 0;
  Trie::Node node = Trie::kRoot;
  for (size_t i = 0; i < text.size();) {
    node = user_defined_.step(node, static_cast<uint8_t>(text[i++]));
    if (node == Trie::kDead) break;
    if (user_defined_.value(node) != Trie::kNoValue) longest = i;
  }
  return longest;
}

Charsmap::Match SpmModel::normalized_prefix(std::string_view text) const {
  if (const size_t size = user_defined_prefix(text); size > 0) return {size, text.substr(0, size)};
  if (const Charsmap::Match match = charsmap_.longest(text); match.size > 0) return match;
  const size_t size = utf8::size_of(text[0]);
  return {size, text.substr(0, size)};
}

void SpmModel::normalize(std::string_view text, std::string& out) const {
  out.clear();
  while (remove_extra_spaces_ && !text.empty()) {
    const Charsmap::Match first = normalized_prefix(text);
    if (first.replacement != " ") break;
    text.remove_prefix(first.size);
  }
  if (text.empty()) return;
  const std::string_view space = escape_spaces_ ? kSpace : std::string_view(" ");
  if (!space_is_suffix_ && add_dummy_prefix_) out.append(space);
  bool after_space = remove_extra_spaces_;
  GrowthLimit growth;
  growth.start(text.size(), 1);
  while (!text.empty()) {
    const Charsmap::Match next = normalized_prefix(text);
    std::string_view part = next.replacement;
    if (part.size() > next.size) growth.add(0, part.size());
    while (after_space && !part.empty() && part[0] == ' ') part.remove_prefix(1);
    for (const char byte : part) {
      if (byte == ' ') {
        out.append(space);
      } else {
        out += byte;
      }
    }
    if (!part.empty()) after_space = part.back() == ' ';
    if (!remove_extra_spaces_) after_space = false;
    text.remove_prefix(next.size);
  }
  while (remove_extra_spaces_ && out.size() >= space.size() && std::string_view(out).substr(out.size() - space.size()) == space) {
    out.resize(out.size() - space.size());
  }
  if (space_is_suffix_ && add_dummy_prefix_) out.append(space);
}

namespace {

class IdSink final : public SpmModel::Sink {
 public:
  explicit IdSink(std::vector<TokenId>& out) : out_(out) {}
  void take(std::string_view, TokenId id) override { out_.push_back(id); }

 private:
  std::vector<TokenId>& out_;
};

}  // namespace

void SpmModel::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  IdSink sink(out);
  cut(text, scratch, sink);
}

void SpmModel::cut(std::string_view text, Scratch& scratch, Sink& sink) const {
  normalize(text, scratch.normalized);
  const std::string_view normalized = scratch.normalized;
  if (normalized.empty()) return;
  if (normalized.size() > 0x7FFFFFFF) throw Error(Code::kTooLarge, "a text has more than 2 GB; encode it in parts");
  std::vector<Cut> cuts = algorithm_ == Algorithm::kUnigram ? cut_unigram(normalized, scratch)
                          : algorithm_ == Algorithm::kBpe   ? cut_bpe(normalized, scratch)
                          : algorithm_ == Algorithm::kWord  ? cut_words(normalized)
                                                            : cut_characters(normalized);
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (kind(cuts[i].id) != Kind::kUnknown) {
      sink.take(cuts[i].piece, cuts[i].id);
      continue;
    }
    if (byte_fallback_) {
      for (const char byte : cuts[i].piece) {
        const std::string name = fmt::format("<0x{:02X}>", static_cast<uint8_t>(byte));
        sink.take(name, id_of(name));
      }
      continue;
    }
    std::string_view run = cuts[i].piece;
    for (; i + 1 < cuts.size() && kind(cuts[i + 1].id) == Kind::kUnknown; ++i) run = {run.data(), run.size() + cuts[i + 1].piece.size()};
    sink.take(run, cuts[i].id);
  }
}

std::vector<SpmModel::Cut> SpmModel::cut_words(std::string_view text) const {
  std::vector<Cut> cuts;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end;
    if (space_is_suffix_) {
      const size_t space = text.find(kSpace, begin);
      end = space == std::string_view::npos ? text.size() : space + kSpace.size();
    } else {
      end = std::min(text.find(kSpace, begin + 1), text.size());
    }
    const std::string_view word = text.substr(begin, end - begin);
    cuts.push_back({word, id_of(word)});
    begin = end;
  }
  return cuts;
}

std::vector<SpmModel::Cut> SpmModel::cut_characters(std::string_view text) const {
  std::vector<Cut> cuts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t symbol = user_defined_prefix(text.substr(begin));
    const size_t size = symbol > 0 ? symbol : utf8::size_of(text[begin]);
    const std::string_view piece = text.substr(begin, size);
    cuts.push_back({piece, id_of(piece)});
    begin += size;
  }
  return cuts;
}

}  // namespace kvik::text
