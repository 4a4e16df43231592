#include <algorithm>
#include <fmt/format.h>
#include <random>

#include "api/environment.h"
#include "api/load.h"
#include "api/state.h"
#include "base/hash.h"
#include "engine/speech_tokens.h"
#include "kv/cache_file.h"
#include "onnx/identity.h"
#include "text/template/json.h"

namespace kvik {
namespace {

// What the config files leave out and others say.
void complete_config(engine::GenerationConfig& config, const analysis::Signature& signature, const text::Tokenizer* tokenizer) {
  const analysis::File* encoder = signature.encoder();
  if (encoder == nullptr) return;
  const bool hears = encoder->input_of(analysis::Role::kAudioFeatures) != nullptr;
  if (hears && tokenizer != nullptr) engine::complete_from_tokenizer(config, *tokenizer);
  if (!config.decoder_start && signature.special.bos) config.decoder_start = static_cast<TokenId>(*signature.special.bos);
}

}  // namespace

SampleOptions GenerateOptions::sampling() const { return sampling_of(*this); }

sample::SamplingOptions Model::State::sampling(const SampleOptions& wanted) const {
  sample::SamplingOptions chosen = config.sampling;
  set_where_given(chosen.temperature, wanted.temperature);
  set_where_given(chosen.top_k, wanted.top_k);
  set_where_given(chosen.top_p, wanted.top_p);
  set_where_given(chosen.min_p, wanted.min_p);
  set_where_given(chosen.repetition_penalty, wanted.repetition_penalty);
  set_where_given(chosen.presence_penalty, wanted.presence_penalty);
  set_where_given(chosen.frequency_penalty, wanted.frequency_penalty);
  set_where_given(chosen.no_repeat_ngram_size, wanted.no_repeat_ngram_size);
  if (!wanted.logit_bias.empty()) chosen.logit_bias = wanted.logit_bias;
  set_where_given(chosen.seed, wanted.seed);
  ban_unreadable(chosen);
  return chosen;
}

void Model::State::ban_unreadable(sample::SamplingOptions& chosen) const {
  const std::vector<TokenId>& unreadable = backend->traits().unreadable_tokens;
  chosen.suppress_tokens.insert(chosen.suppress_tokens.end(), unreadable.begin(), unreadable.end());
}

int Model::State::max_new_tokens(const GenerateOptions& wanted, int n_prompt) const {
  if (wanted.max_tokens) {
    if (*wanted.max_tokens < 0)
      throw Error(Code::kBadArgument, fmt::format("max_tokens is {}; 0 or more was expected", *wanted.max_tokens));
    return *wanted.max_tokens;
  }
  if (config.max_new_tokens) return *config.max_new_tokens;
  if (config.max_length && *config.max_length > n_prompt) return *config.max_length - n_prompt;
  return kDefaultNewTokens;
}

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
  const api::Environment environment = api::read_environment();
  const Log log(options.log);
  const api::ModelPath found = api::find_model(path_or_name, environment);
  auto state = std::make_shared<State>();
  state->options = options;
  state->signature = analysis::analyse(found.path(), {options.variant}, log);
  for (const std::string& problem : state->signature.problems) log.warning(problem);
  state->backend = api::open_backend(state->signature, options, environment, log);
  state->config = engine::read_generation_config(state->signature);
  if (text::Tokenizer::is_in(found.folder)) state->tokenizer = text::Tokenizer::load(found.folder);
  complete_config(state->config, state->signature, state->tokenizer.get());
  state->chat_template = text::ChatTemplate::load(found.folder);
  state->weights_bytes = state->backend->traits().weights_bytes;
  if (state->weights_bytes == 0) state->weights_bytes = api::weights_bytes_of(state->signature);
  state->load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return Model(std::move(state));
}

void Model::State::check_continues_prompts() const {
  if (!backend->traits().needs_source) return;
  throw Error(Code::kUnsupported,
              fmt::format("{}: this model starts from a source; use translate, or transcribe for sound", signature.folder.string()));
}

Session Model::session() const {
  state_->check_continues_prompts();
  return Session(std::make_unique<Session::State>(
      Session::State{state_, engine::Sequence(state_->backend, state_->options.context), {}, {}, {}, {}, {}}));
}

Session Model::load_session(const std::filesystem::path& file) const {
  const kv::SavedCache saved = kv::read_cache(file);
  const auto expect = [&](const std::string& found, const std::string& expected, const std::string& otherwise) {
    if (found != expected) throw Error(Code::kBadArgument, fmt::format("{}: {}", file.string(), otherwise));
  };
  const std::string& form = state_->backend->traits().cache_form;
  expect(saved.model, state_->identity(), "the session was saved with another model; load that one, or begin anew");
  expect(saved.form, form,
         fmt::format("the session was saved as '{}', and the model is loaded as '{}'; load it the same way", saved.form, form));
  try {
    engine::Sequence sequence =
        engine::Sequence::restored(state_->backend, state_->options.context, saved.tokens, saved.contents, saved.logits);
    auto state = std::make_unique<Session::State>(Session::State{state_, std::move(sequence), {}, {}, {}, {}, {}});
    if (saved.random) {
      state->seed = saved.random->seed;
      state->rng.emplace(saved.random->seed).seek(saved.random->position);
    }
    return Session(std::move(state));
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", file.string(), e.what())); }
}

Generation Model::generate(std::string_view prompt, const GenerateOptions& options) const {
  std::vector<TokenId> ids = tokenize(prompt);
  if (ids.empty()) ids = start_ids();
  return generate(std::span<const TokenId>(ids), options);
}

Generation Model::generate(std::span<const TokenId> prompt, const GenerateOptions& options) const {
  return begin(nullptr, prompt, options);
}

Generation Model::generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options) const {
  if (session.state_->model != state_) throw Error(Code::kBadArgument, "the session belongs to another model");
  return begin(&session, prompt, options);
}

Generation Model::begin(Session* session, std::span<const TokenId> prompt, const GenerateOptions& options) const {
  state_->check_continues_prompts();
  const sample::SamplingOptions sampling = state_->sampling(options.sampling());
  const uint64_t seed = options.seed ? *options.seed : std::random_device()();
  const auto vocab = static_cast<size_t>(state_->backend->traits().vocab);
  auto state = std::make_unique<Generation::State>(Generation::State{state_,
                                                                     {},
                                                                     nullptr,
                                                                     sample::Sampler(sampling, vocab),
                                                                     sample::Rng(seed),
                                                                     {},
                                                                     {},
                                                                     text::StopMatcher(options.stop),
                                                                     {},
                                                                     {},
                                                                     {},
                                                                     false});
  if (session == nullptr) state->own.emplace(state_->backend, state_->options.context);
  state->sequence = session != nullptr ? &session->state_->sequence : &*state->own;
  state->prompt_ids.assign(prompt.begin(), prompt.end());
  if (state_->tokenizer != nullptr) state->stream.emplace(state_->tokenizer);

  engine::GeneratorOptions loop;
  loop.max_new_tokens = state_->max_new_tokens(options, static_cast<int>(prompt.size()));
  loop.stop_ids = options.stop_ids;
  if (!options.ignore_eos) loop.stop_ids.insert(loop.stop_ids.end(), sampling.eos_token_id.begin(), sampling.eos_token_id.end());
  loop.use_cache = options.use_cache;
  loop.watch = {options.progress, options.cancelled};
  state->generator.emplace(*state->sequence, state->sampler, state->rng, std::move(loop));
  state->generator->start(state->prompt_ids);
  return Generation(std::move(state));
}

std::vector<std::vector<float>> Model::step(std::span<Session> sessions, std::span<const TokenId> tokens) const {
  std::vector<engine::Sequence*> sequences;
  for (Session& session : sessions) sequences.push_back(&session.state_->sequence);
  if (engine::Sequence::append_each(sequences, tokens) == engine::Appended::kContextFull) {
    throw Error(Code::kTooLarge, "the context of a session is full; nothing was run");
  }
  std::vector<std::vector<float>> result;
  for (engine::Sequence* sequence : sequences) result.emplace_back(sequence->logits().begin(), sequence->logits().end());
  return result;
}

bool Model::has_tokenizer() const { return state_->tokenizer != nullptr; }

std::vector<TokenId> Model::State::tokenize(std::string_view text, const text::EncodeOptions& how) const {
  if (tokenizer == nullptr)
    throw Error(Code::kBadArgument,
                fmt::format("{}: there are no tokenizer files, so text cannot be read; give token ids", signature.folder.string()));
  return tokenizer->encode(text, how);
}

std::string Model::State::detokenize(std::span<const TokenId> ids, bool skip_special) const {
  if (tokenizer == nullptr)
    throw Error(Code::kBadArgument, fmt::format("{}: there are no tokenizer files, so ids cannot become text", signature.folder.string()));
  // A padded vocabulary has ids that no tokenizer knows; they are no text.
  std::vector<TokenId> known(ids.begin(), ids.end());
  std::erase_if(known, [&](TokenId id) { return id >= tokenizer->end_id() && id < backend->traits().vocab; });
  return tokenizer->decode(known, skip_special);
}

std::vector<TokenId> Model::tokenize(std::string_view text, bool add_special) const {
  return state_->tokenize(text, {.add_special = add_special});
}

std::string Model::detokenize(std::span<const TokenId> ids, bool skip_special) const { return state_->detokenize(ids, skip_special); }

bool Model::has_chat_template() const { return !state_->chat_template.empty(); }

std::string Model::apply_chat_template(std::string_view messages_json, bool add_generation_prompt) const {
  if (state_->chat_template.empty())
    throw Error(Code::kBadArgument, fmt::format("{}: the model has no chat template", state_->signature.folder.string()));
  text::ChatRequest request;
  request.messages = text::jinja::from_json(messages_json, "messages");
  request.add_generation_prompt = add_generation_prompt;
  return state_->chat_template.render(request);
}

int Model::vocab_size() const { return state_->backend->traits().vocab; }
int Model::max_positions() const { return state_->backend->traits().max_positions; }
std::string Model::backend() const { return state_->backend->traits().name; }
std::string Model::device() const { return state_->backend->traits().device; }
size_t Model::weights_bytes() const { return state_->weights_bytes; }
double Model::load_ms() const { return state_->load_ms; }
std::vector<TokenId> Model::eos_ids() const { return state_->config.sampling.eos_token_id; }

std::vector<TokenId> Model::start_ids() const {
  if (!state_->signature.special.bos) return {};
  return {static_cast<TokenId>(*state_->signature.special.bos)};
}

}  // namespace kvik
