#include <algorithm>
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "kvik/error.h"
#include "text/load/config.h"
#include "text/load/json_file.h"
#include "text/load/tokenizer_json.h"
#include "text/models/bpe.h"
#include "text/models/wordpiece.h"
#include "text/pipeline.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer.h"

namespace kvik::text {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& folder, const char* name) { return fs::is_regular_file(folder / name); }

// Prefixes errors with the name of the file.
template <class F>
auto with_file_name(const fs::path& path, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    const std::string message = e.what();
    if (message.rfind(path.string(), 0) == 0) throw;
    throw Error(e.code(), fmt::format("{}: {}", path.string(), message));
  }
}

std::shared_ptr<const Tokenizer> finish(Parts parts, const TokenizerConfig& config) {
  apply_config(config, parts.added, *parts.model);
  parts.source_language = config.source_language;
  auto core = std::make_unique<Pipeline>(std::move(parts));
  const SpecialIds special = special_ids(config, *core);
  return std::make_shared<Tokenizer>(std::move(core), special);
}

std::shared_ptr<const Tokenizer> load_json(const fs::path& path, const TokenizerConfig& config) {
  return with_file_name(path, [&] {
    const JsonFile file(path);
    return finish(read_parts(file.root()), config);
  });
}

Vocabulary read_json_vocabulary(const fs::path& path) {
  return with_file_name(path, [&] {
    const JsonFile file(path);
    Vocabulary vocabulary;
    vocabulary.reserve(file.root().size(), file.root().size() * 8);
    for (const auto& [piece, id] : file.root()) vocabulary.add(piece, json::integer_of(id, piece));
    return vocabulary;
  });
}

// Calls f for every line, without its line break.
template <class F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    f(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

AddedToken special_token(std::string_view content) {
  AddedToken token;
  token.content = std::string(content);
  token.normalized = false;
  token.special = true;
  return token;
}

void set_default(TokenizerConfig& config, TokenizerConfig::Role role, std::string_view content, const Vocabulary& vocabulary) {
  if (!config.roles[role] && vocabulary.find(content) != kNoToken) config.roles[role] = special_token(content);
}

void add_listed(const TokenizerConfig& config, Parts& parts) {
  std::vector<AddedToken> tokens;
  const std::vector<AddedToken> special = config.special_tokens();
  for (const auto& listed : config.by_id) {
    AddedToken token;
    token.content = listed.first;
    token.special = std::any_of(special.begin(), special.end(), [&](const AddedToken& other) { return other.content == listed.first; });
    token.normalized = !token.special;
    tokens.push_back(std::move(token));
  }
  parts.added.add(tokens, *parts.model);
}

// Without a decoder in a file, the reference joins the words and cleans up spaces.
void add_clean_decoders(Decoders& decoders) {
  decoders.push_back(make_wordpiece_decoder("##", false));
  decoders.push_back(make_fuse_decoder());
  for (const char* what : {" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"}) {
    std::string with = what;
    with.erase(0, 1);
    if (with.back() == ' ') with.pop_back();
    decoders.push_back(make_replace_decoder(what, std::move(with)));
  }
}

// vocab.txt: one piece per line; the line number is the id.
std::shared_ptr<const Tokenizer> load_words(const fs::path& path, TokenizerConfig config) {
  const auto file = MappedFile::open(path);
  if (!utf8::is_valid(file->text())) throw Error(Code::kBadModel, fmt::format("{}: not UTF-8; expected one piece per line", path.string()));
  Vocabulary vocabulary;
  int64_t id = 0;
  for_each_line(file->text(), [&](std::string_view line) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    vocabulary.add(line, id++);
  });
  set_default(config, TokenizerConfig::kUnknown, "[UNK]", vocabulary);
  set_default(config, TokenizerConfig::kSeparator, "[SEP]", vocabulary);
  set_default(config, TokenizerConfig::kPad, "[PAD]", vocabulary);
  set_default(config, TokenizerConfig::kClassifier, "[CLS]", vocabulary);
  set_default(config, TokenizerConfig::kMask, "[MASK]", vocabulary);
  Parts parts;
  CleanOptions clean;
  clean.lowercase = config.lowercase.value_or(true);
  clean.strip_accents = config.strip_accents.value_or(clean.lowercase);
  clean.space_chinese = config.space_chinese.value_or(true);
  parts.normalizers.push_back(make_clean(clean));
  parts.pre_tokenizers.push_back(make_white_space_and_punctuation());
  WordPieceOptions options;
  if (config.roles[TokenizerConfig::kUnknown]) options.unknown = config.roles[TokenizerConfig::kUnknown]->content;
  const auto id_of = [&](TokenizerConfig::Role role) {
    return config.roles[role] ? vocabulary.find(config.roles[role]->content) : kNoToken;
  };
  const TokenId first = id_of(TokenizerConfig::kClassifier);
  const TokenId last = id_of(TokenizerConfig::kSeparator);
  if (first != kNoToken && last != kNoToken) parts.post_processors.push_back(make_enclosing(first, last));
  add_clean_decoders(parts.decoders);
  parts.model = std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
  parts.added.add({}, *parts.model);
  add_listed(config, parts);
  return finish(std::move(parts), config);
}

// Words that end in a mark, and text that is not written as bytes, need rules that these files do not contain.
void check_byte_level(const Vocabulary& vocabulary, const fs::path& path) {
  constexpr const char* kByteLevelSpace = "\xC4\xA0";
  const bool ends_words = vocabulary.find("a") != kNoToken && vocabulary.find("a</w>") != kNoToken;
  if (vocabulary.find(kByteLevelSpace) != kNoToken && !ends_words) return;
  throw Error(Code::kUnsupported, fmt::format("{}: expected a byte-level vocabulary, found {}; save the tokenizer as tokenizer.json",
                                              path.string(), ends_words ? "words that end in '</w>'" : "no piece for the space"));
}

// vocab.json and merges.txt: byte-level.
std::shared_ptr<const Tokenizer> load_merges(const fs::path& folder, TokenizerConfig config) {
  Vocabulary vocabulary = read_json_vocabulary(folder / "vocab.json");
  check_byte_level(vocabulary, folder / "vocab.json");
  const fs::path path = folder / "merges.txt";
  const auto file = MappedFile::open(path);
  if (!utf8::is_valid(file->text()))
    throw Error(Code::kBadModel, fmt::format("{}: not UTF-8; expected two pieces per line", path.string()));
  Bpe::Merges merges;
  for_each_line(file->text(), [&](std::string_view line) {
    if (line.substr(0, 8) == "#version" || line.empty()) return;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw Error(Code::kBadModel, fmt::format("{}: merge {} is not two pieces separated by a space", path.string(), merges.size()));
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  set_default(config, TokenizerConfig::kBos, "<|endoftext|>", vocabulary);
  set_default(config, TokenizerConfig::kEos, "<|endoftext|>", vocabulary);
  Parts parts;
  if (config.add_prefix_space.value_or(false)) parts.pre_tokenizers.push_back(make_prefix_space());
  parts.pre_tokenizers.push_back(make_byte_level_split());
  parts.pre_tokenizers.push_back(make_byte_level_characters());
  parts.ends_in_bytes = true;
  parts.decoders.push_back(make_byte_level_decoder());
  const auto id_of = [&](TokenizerConfig::Role role) {
    return config.roles[role] ? vocabulary.find(config.roles[role]->content) : kNoToken;
  };
  const TokenId first = id_of(TokenizerConfig::kClassifier);
  const TokenId last = id_of(TokenizerConfig::kSeparator);
  if (first != kNoToken && last != kNoToken) {
    parts.post_processors.push_back(make_enclosing(first, last));
  } else if (const TokenId bos = id_of(TokenizerConfig::kBos); config.add_bos.value_or(false) && bos != kNoToken) {
    parts.post_processors.push_back(make_template({{TemplatePlace::kSpecial, {bos}}, {0, {}}}, {}));
  }
  parts.model = with_file_name(path, [&] { return std::make_unique<Bpe>(std::move(vocabulary), merges, BpeOptions{}); });
  parts.added.add({}, *parts.model);
  add_listed(config, parts);
  return finish(std::move(parts), config);
}

std::unique_ptr<const SpmModel> load_spm(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return with_file_name(path, [&] { return std::make_unique<const SpmModel>(file->text()); });
}

std::shared_ptr<const Tokenizer> finish_spm(SpmParts parts, const TokenizerConfig& config) {
  auto core = std::make_unique<SpmTokenizer>(std::move(parts));
  SpecialIds special = special_ids(config, *core);
  return std::make_shared<Tokenizer>(std::move(core), special);
}

// source.spm and target.spm for the pieces, vocab.json for the ids.
std::shared_ptr<const Tokenizer> load_translation(const fs::path& folder, TokenizerConfig config) {
  SpmParts parts;
  parts.source = load_spm(folder / "source.spm");
  if (has(folder, "target.spm")) parts.target = load_spm(folder / "target.spm");
  parts.source_ids = std::make_unique<Vocabulary>(read_json_vocabulary(folder / "vocab.json"));
  if (has(folder, "target_vocab.json") && config.separate_vocabularies.value_or(true)) {
    parts.target_ids = std::make_unique<Vocabulary>(read_json_vocabulary(folder / "target_vocab.json"));
  }
  set_default(config, TokenizerConfig::kEos, "</s>", *parts.source_ids);
  set_default(config, TokenizerConfig::kUnknown, "<unk>", *parts.source_ids);
  set_default(config, TokenizerConfig::kPad, "<pad>", *parts.source_ids);
  config.roles[TokenizerConfig::kBos].reset();  // such models have none, even if the config does
  for (const AddedToken& token : config.special_tokens()) parts.added.push_back(token);
  for (const AddedToken& token : config.added) parts.added.push_back(token);
  parts.added_ids = config.by_id;
  parts.unknown = config.roles[TokenizerConfig::kUnknown] ? config.roles[TokenizerConfig::kUnknown]->content : "<unk>";
  if (config.roles[TokenizerConfig::kEos]) parts.suffix = parts.source_ids->find(config.roles[TokenizerConfig::kEos]->content);
  parts.language_codes = true;
  return with_file_name(folder / "vocab.json", [&] { return finish_spm(std::move(parts), config); });
}

std::vector<std::pair<std::string, int64_t>> listed_ids(const TokenizerConfig& config) {
  std::vector<std::pair<std::string, int64_t>> ids = config.by_id;
  ids.insert(ids.end(), config.decoder_ids.begin(), config.decoder_ids.end());
  return ids;
}

// A SentencePiece model for the pieces, vocab.json for the ids: the token of the source language, the pieces, the end token.
std::shared_ptr<const Tokenizer> load_indexed_pieces(const fs::path& pieces, TokenizerConfig config) {
  const fs::path ids = pieces.parent_path() / "vocab.json";
  SpmParts parts;
  parts.source = load_spm(pieces);
  parts.source_ids = std::make_unique<Vocabulary>(read_json_vocabulary(ids));
  set_default(config, TokenizerConfig::kEos, "</s>", *parts.source_ids);
  set_default(config, TokenizerConfig::kUnknown, "<unk>", *parts.source_ids);
  set_default(config, TokenizerConfig::kPad, "<pad>", *parts.source_ids);
  for (const AddedToken& token : config.special_tokens()) parts.added.push_back(token);
  for (const AddedToken& token : config.added) parts.added.push_back(token);
  parts.added_ids = listed_ids(config);
  parts.unknown = config.roles[TokenizerConfig::kUnknown] ? config.roles[TokenizerConfig::kUnknown]->content : "<unk>";
  if (config.roles[TokenizerConfig::kEos]) parts.suffix = parts.source_ids->find(config.roles[TokenizerConfig::kEos]->content);
  parts.source_language = config.source_language;
  return with_file_name(ids, [&] { return finish_spm(std::move(parts), config); });
}

// Some tokenizers renumber the pieces of their model, by rules that only the code of their library has.
void check_ids(const SpmModel& model, const TokenizerConfig& config) {
  constexpr const char* kAdvice = "its ids cannot be read from these files; save the tokenizer as tokenizer.json";
  for (const auto& [content, id] : config.decoder_ids) {
    const TokenId in_model = model.id_of(content);
    if (in_model == id || in_model < 0 || model.piece(in_model) != content || model.kind(in_model) == SpmModel::Kind::kNormal) continue;
    throw Error(Code::kUnsupported,
                fmt::format("'{}' is {} in the SentencePiece model and {} in tokenizer_config.json: {}", content, in_model, id, kAdvice));
  }
  if (!config.roles[TokenizerConfig::kBos] || config.model_bos != model.unknown()) return;
  const std::string& bos = config.roles[TokenizerConfig::kBos]->content;
  const TokenId in_model = model.id_of(bos);
  if (in_model < 0 || in_model == model.unknown() || model.piece(in_model) != bos) return;
  throw Error(Code::kUnsupported,
              fmt::format("'{}' is {} in the SentencePiece model and {} in config.json: {}", bos, in_model, *config.model_bos, kAdvice));
}

// One SentencePiece model with its own ids. Without a config, no special tokens are added, as in the reference library.
std::shared_ptr<const Tokenizer> load_pieces(const fs::path& path, TokenizerConfig config) {
  SpmParts parts;
  parts.source = load_spm(path);
  with_file_name(path, [&] { check_ids(*parts.source, config); });
  parts.unknown = std::string(parts.source->piece(parts.source->unknown()));
  const bool adds_bos =
      config.add_bos.value_or(config.exists && !config.is_encoder_decoder && config.roles[TokenizerConfig::kBos].has_value());
  const bool adds_eos =
      config.add_eos.value_or(config.exists && config.is_encoder_decoder && config.roles[TokenizerConfig::kEos].has_value());
  if (adds_bos) parts.prefix = parts.source->bos();
  if (adds_eos) parts.suffix = parts.source->eos();
  for (const AddedToken& token : config.special_tokens()) parts.added.push_back(token);
  for (const AddedToken& token : config.added) parts.added.push_back(token);
  for (const auto& [content, id] : config.by_id) {
    AddedToken token;
    token.content = content;
    token.normalized = false;
    parts.added.push_back(std::move(token));
  }
  parts.added_ids = listed_ids(config);
  return with_file_name(path, [&] { return finish_spm(std::move(parts), config); });
}

// The SentencePiece model of a folder; empty if there is none.
fs::path find_pieces(const fs::path& folder) {
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "source.spm"}) {
    if (has(folder, name)) return folder / name;
  }
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".spm" || extension == ".model") found.push_back(entry.path());
  }
  return found.size() == 1 ? found[0] : fs::path();
}

bool has_tokenizer(const fs::path& folder) {
  return has(folder, "tokenizer.json") || has(folder, "vocab.txt") || (has(folder, "vocab.json") && has(folder, "merges.txt")) ||
         !find_pieces(folder).empty();
}

// Some folders have the graphs in onnx/ and all other files one level up.
fs::path folder_of_files(const fs::path& folder) {
  if (has_tokenizer(folder)) return folder;
  const fs::path whole = (folder / "").lexically_normal().parent_path();
  const fs::path parent = whole.has_parent_path() ? whole.parent_path() : fs::path(".");
  return whole.filename() == "onnx" && has_tokenizer(parent) ? parent : folder;
}

}  // namespace

bool Tokenizer::is_in(const fs::path& folder) { return has_tokenizer(folder_of_files(folder)); }

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& given) {
  const fs::path folder = folder_of_files(given);
  if (!fs::is_directory(folder))
    throw Error(Code::kIo, fmt::format("{}: no such folder; expected the folder with the tokenizer's files", folder.string()));
  TokenizerConfig config = read_config(folder);
  if (has(folder, "tokenizer.json")) return load_json(folder / "tokenizer.json", config);
  if (has(folder, "source.spm") && has(folder, "vocab.json")) return load_translation(folder, std::move(config));
  if (const fs::path pieces = find_pieces(folder); !pieces.empty()) {
    const bool indexed = has(folder, "vocab.json") && !has(folder, "merges.txt");
    return indexed ? load_indexed_pieces(pieces, std::move(config)) : load_pieces(pieces, std::move(config));
  }
  if (has(folder, "vocab.txt")) return load_words(folder / "vocab.txt", std::move(config));
  if (has(folder, "vocab.json") && has(folder, "merges.txt")) return load_merges(folder, std::move(config));
  throw Error(
      Code::kIo,
      fmt::format("{}: no tokenizer; expected a tokenizer.json, a SentencePiece model, a vocab.txt, or a vocab.json with a merges.txt",
                  folder.string()));
}

std::shared_ptr<const Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view origin) {
  const JsonFile file(json, origin);
  return with_file_name(fs::path(origin), [&] { return finish(read_parts(file.root()), TokenizerConfig()); });
}

}  // namespace kvik::text
