#include <fmt/format.h>

#include "api/embedding_run.h"
#include "api/environment.h"
#include "api/generation_state.h"
#include "api/load.h"
#include "backend/no_decoder.h"
#include "base/elapsed.h"
#include "base/hash.h"
#include "engine/speech/control_tokens.h"
#include "engine/speech/start_tokens.h"
#include "kv/cache_file.h"
#include "kvik/profile.h"
#include "onnx/identity.h"
#include "text/template/json.h"
#include "text/tokenizer_core.h"

namespace kvik {
namespace {

// Fills in what the config files do not set.
void complete_config(engine::GenerationConfig& config, const analysis::Signature& signature, const text::Tokenizer* tokenizer) {
  const analysis::File* encoder = signature.encoder();
  if (encoder == nullptr) return;
  const bool reads_audio = encoder->input_of(analysis::Role::kAudioFeatures) != nullptr;
  if (reads_audio && tokenizer != nullptr) engine::complete_from_tokenizer(config, *tokenizer);
  if (!config.decoder_start && signature.special.bos) config.decoder_start = static_cast<TokenId>(*signature.special.bos);
}

}  // namespace

const std::string& Model::State::identity() const {
  std::call_once(identified_, [this] {
    Hash hash;
    for (const analysis::File* file : {signature.first_step(), signature.later_step(), signature.file_of(analysis::Stage::kEmbedding)})
      if (file != nullptr) hash.add(onnx::identity_of(*file->model));
    identity_ = hash.hex();
  });
  return identity_;
}

Model Model::load(const std::string& path_or_name, const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.threads < 0 || options.threads > 1024)
    throw Error(Code::kBadArgument, fmt::format("threads is {}; 0 to 1024 was expected", options.threads));
  if (options.context < 0) throw Error(Code::kBadArgument, fmt::format("context is {}; 0 or more was expected", options.context));
  api::check_enum(options.backend, BackendChoice::kReference, "backend");
  api::check_enum(options.device, Device::kAuto, "device");
  if (options.device_index < 0)
    throw Error(Code::kBadArgument, fmt::format("device_index is {}; 0 or more was expected", options.device_index));
  api::check_enum(options.weights, Weights::kQ4, "weights");
  api::check_enum(options.kv, KvStorage::kQ8, "kv");
  const api::Environment environment = api::read_environment();
  const Log log(options.log);
  const api::ModelPath found = api::find_model(path_or_name, environment);
  auto state = std::make_shared<State>();
  state->options = options;
  state->signature = analysis::analyze(found.path(), {options.variant}, log);
  if (state->signature.embedder() != nullptr) state->embedding = engine::read_embedding_config(state->signature.folder);
  api::log_problems(state->signature, log);
  state->decoder =
      std::make_shared<engine::Decoder>(state->signature.only_embeds() ? backend::make_no_decoder(api::default_embedder(*state).traits())
                                                                       : api::open_backend(state->signature, options, environment, log),
                                        options.profile != nullptr ? options.profile->recorder() : nullptr);
  state->config = engine::read_generation_config(state->signature);
  if (text::Tokenizer::is_in(found.folder)) state->tokenizer = text::Tokenizer::load(found.folder);
  complete_config(state->config, state->signature, state->tokenizer.get());
  state->chat_template = text::ChatTemplate::load(found.folder);
  state->weights_bytes = state->traits().weights_bytes;
  if (state->weights_bytes == 0) state->weights_bytes = api::weights_bytes_of(state->signature);
  state->load_ms = ms_since(start);
  return Model(std::move(state));
}

void Model::State::check_continues_prompts() const {
  if (!traits().generates)
    throw Error(
        Code::kUnsupported,
        fmt::format("{}: this model only computes embeddings and cannot generate; use embed, or export it with its language-model head",
                    signature.folder.string()));
  if (!traits().needs_source) return;
  throw Error(Code::kUnsupported, fmt::format("{}: this model needs a source to start from; use translate, or transcribe for audio",
                                              signature.folder.string()));
}

Session Model::session() const {
  state_->check_continues_prompts();
  return Session(std::make_shared<Session::State>(state_, engine::Sequence(state_->decoder, state_->options.context)));
}

Session Model::load_session(const std::filesystem::path& file) const {
  const kv::SavedCache saved = kv::read_cache(file);
  const auto expect = [&](const std::string& found, const std::string& expected, const std::string& otherwise) {
    if (found != expected) throw Error(Code::kBadArgument, fmt::format("{}: {}", file.string(), otherwise));
  };
  const std::string& form = state_->traits().cache_form;
  expect(saved.model, state_->identity(), "the session was saved with another model; load that one, or start a new session");
  expect(saved.form, form,
         fmt::format("the session was saved as '{}' and the model is loaded as '{}'; load it the same way", saved.form, form));
  try {
    auto state = std::make_shared<Session::State>(
        state_, engine::Sequence::restored(state_->decoder, state_->options.context, saved.tokens, saved.contents, saved.logits));
    if (saved.random) {
      state->seed = saved.random->seed;
      state->rng.emplace(saved.random->seed).seek(saved.random->position);
    }
    return Session(std::move(state));
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", file.string(), e.what())); }
}

int Model::load_prefix(const std::filesystem::path& file) const {
  Session session = load_session(file);
  engine::Sequence& sequence = session.state_->sequence();
  sequence.share_prefix(true);
  const int n_pinned = state_->backend().pin_prefix(sequence.tokens());
  if (n_pinned == sequence.length()) return n_pinned;
  throw Error(Code::kUnsupported,
              fmt::format("{}: sessions of this model cannot begin with a saved prefix ({} of {} tokens kept); the native "
                          "backend with reuse_prefixes can, unless the model has a recurrent state",
                          file.string(), n_pinned, sequence.length()));
}

CacheUse Model::cache_use() const {
  const backend::CacheMemory memory = state_->backend().cache_memory();
  return {.used_bytes = memory.used_bytes,
          .prefix_bytes = memory.idle_bytes,
          .allocated_bytes = memory.allocated_bytes,
          .limit_bytes = memory.limit_bytes,
          .reused_positions = memory.reused_positions,
          .evicted_positions = memory.evicted_positions};
}

Generation Model::generate(std::string_view prompt, const GenerateOptions& options) const {
  std::vector<TokenId> ids = tokenize(prompt);
  if (ids.empty()) ids = start_ids();
  return generate(std::span<const TokenId>(ids), options);
}

Generation Model::generate(std::span<const TokenId> prompt, const GenerateOptions& options) const {
  Session own = session();
  return Generation(std::make_unique<Generation::State>(std::move(own.state_), prompt, options));
}

Generation Model::generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options) const {
  if (session.state_ == nullptr || session.state_->model != state_)
    throw Error(Code::kBadArgument, "the session belongs to another model, or was moved from");
  return Generation(std::make_unique<Generation::State>(session.state_, prompt, options));
}

AppendStatus Model::step(std::span<Session* const> sessions, std::span<const TokenId> tokens) const {
  thread_local std::vector<engine::Stream*> streams;  // so that a step allocates nothing
  streams.clear();
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (sessions[i] == nullptr || sessions[i]->state_ == nullptr || sessions[i]->state_->model != state_)
      throw Error(Code::kBadArgument, fmt::format("session {} of a step is null, was moved from, or belongs to another model", i));
    sessions[i]->state_->end_generation();
    streams.push_back(&sessions[i]->state_->stream);
  }
  return state_->decoder->append_each(streams, tokens);
}

bool Model::has_tokenizer() const { return state_->tokenizer != nullptr; }

std::vector<TokenId> Model::State::tokenize(std::string_view text, const text::EncodeOptions& how) const {
  if (tokenizer == nullptr)
    throw Error(Code::kBadArgument,
                fmt::format("{}: there are no tokenizer files, so text cannot be tokenized; pass token ids", signature.folder.string()));
  return tokenizer->encode(text, how);
}

std::string Model::State::detokenize(std::span<const TokenId> ids, bool skip_special) const {
  if (tokenizer == nullptr)
    throw Error(Code::kBadArgument,
                fmt::format("{}: there are no tokenizer files, so ids cannot be decoded to text", signature.folder.string()));
  // A padded vocabulary has ids that are not in the tokenizer; they have no text.
  std::vector<TokenId> known(ids.begin(), ids.end());
  std::erase_if(known, [&](TokenId id) { return id >= tokenizer->end_id() && id < traits().vocab; });
  return tokenizer->decode(known, skip_special);
}

std::vector<TokenId> Model::tokenize(std::string_view text, bool add_special) const {
  return state_->tokenize(text, {.add_special = add_special});
}

std::string Model::detokenize(std::span<const TokenId> ids, bool skip_special) const { return state_->detokenize(ids, skip_special); }

// Pushed twice, because some tokenizers drop the space of a first token.
std::string Model::token_bytes(TokenId id) const {
  const std::string written = state_->detokenize(std::span(&id, 1), false);  // throws for an id that is not in the vocabulary
  if (id >= state_->tokenizer->end_id()) return written;
  std::string bytes;
  const std::unique_ptr<text::DecodeRun> run = state_->tokenizer->core().start_decoding_bytes(bytes);
  run->push(id);
  bytes.clear();
  run->push(id);
  return bytes.empty() ? written : bytes;
}

bool Model::has_chat_template() const { return !state_->chat_template.empty(); }

std::string Model::apply_chat_template(std::string_view messages_json, bool add_generation_prompt) const {
  if (state_->chat_template.empty())
    throw Error(Code::kBadArgument, fmt::format("{}: the model has no chat template", state_->signature.folder.string()));
  text::ChatRequest request;
  request.messages = text::jinja::from_json(messages_json, "messages");
  request.add_generation_prompt = add_generation_prompt;
  return state_->chat_template.render(request);
}

bool Model::has_encoder() const { return state_->traits().needs_source; }
bool Model::has_timestamps() const { return has_encoder() && engine::has_timestamps(state_->config); }
int Model::vocab_size() const { return state_->traits().vocab; }
int Model::max_positions() const { return state_->traits().max_positions; }
std::string Model::backend() const { return state_->traits().name; }
std::string Model::device() const { return state_->traits().device; }
size_t Model::weights_bytes() const { return state_->weights_bytes; }

size_t Model::weights_bytes_per_token() const {
  const size_t kept = state_->traits().weights_bytes_per_token;
  return kept > 0 ? kept : state_->weights_bytes;
}

size_t Model::cache_bytes_per_token() const {
  const size_t kept = state_->traits().cache_bytes_per_token;
  return kept > 0 ? kept : static_cast<size_t>(state_->signature.cache_bytes_per_token());
}

SourceWork Model::source_work() const {
  const backend::SourceWork work = state_->backend().source_work();
  return {work.encoded, work.cross_projected};
}

double Model::load_ms() const { return state_->load_ms; }
std::vector<TokenId> Model::eos_ids() const { return state_->config.eos; }

std::vector<TokenId> Model::start_ids() const {
  if (!state_->signature.special.bos) return {};
  return {static_cast<TokenId>(*state_->signature.special.bos)};
}

}  // namespace kvik
