#include "analysis/signature.h"

#include <algorithm>

namespace kvik::analysis {
namespace {

struct RoleName {
  Role role;
  std::string_view name;
};
constexpr RoleName kRoleNames[] = {
    {Role::kUnknown, "unknown"},
    {Role::kTokenIds, "token_ids"},
    {Role::kInputsEmbeds, "inputs_embeds"},
    {Role::kAttentionMask, "attention_mask"},
    {Role::kPositionIds, "position_ids"},
    {Role::kTokenTypeIds, "token_type_ids"},
    {Role::kPastKey, "past_key"},
    {Role::kPastValue, "past_value"},
    {Role::kPastKeyValue, "past_key_value"},
    {Role::kCrossKey, "cross_key"},
    {Role::kCrossValue, "cross_value"},
    {Role::kRecurrentState, "recurrent_state"},
    {Role::kUseCacheBranch, "use_cache_branch"},
    {Role::kNumLogitsToKeep, "num_logits_to_keep"},
    {Role::kCachePosition, "cache_position"},
    {Role::kWriteIndices, "write_indices"},
    {Role::kKvLength, "kv_length"},
    {Role::kEncoderHiddenStates, "encoder_hidden_states"},
    {Role::kEncoderAttentionMask, "encoder_attention_mask"},
    {Role::kAudioFeatures, "audio_features"},
    {Role::kPixelValues, "pixel_values"},
    {Role::kLogits, "logits"},
    {Role::kPresentKey, "present_key"},
    {Role::kPresentValue, "present_value"},
    {Role::kPresentKeyValue, "present_key_value"},
    {Role::kHiddenStates, "hidden_states"},
    {Role::kEmbeddings, "embeddings"},
    {Role::kSentenceEmbedding, "sentence_embedding"},
    {Role::kPoolerOutput, "pooler_output"},
    {Role::kOther, "other"},
};

const Port* port_of(const std::vector<Port>& ports, Role role) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.role == role; });
  return found == ports.end() ? nullptr : &*found;
}

}  // namespace

std::string_view role_name(Role role) {
  for (const RoleName& known : kRoleNames) {
    if (known.role == role) return known.name;
  }
  return "unknown";
}

bool is_state_role(Role role) {
  switch (role) {
    case Role::kPastKey:
    case Role::kPastValue:
    case Role::kPastKeyValue:
    case Role::kCrossKey:
    case Role::kCrossValue:
    case Role::kRecurrentState:
    case Role::kPresentKey:
    case Role::kPresentValue:
    case Role::kPresentKeyValue: return true;
    default: return false;
  }
}

std::optional<Role> role_named(std::string_view name) {
  for (const RoleName& known : kRoleNames) {
    if (known.name == name && known.role != Role::kUnknown) return known.role;
  }
  return {};
}

std::string_view stage_name(Stage stage) {
  constexpr std::string_view kNames[] = {"decoder", "decoder_with_past", "decoder_merged", "encoder", "audio",
                                         "vision",  "embedding",         "other"};
  return kNames[static_cast<size_t>(stage)];
}

std::string_view growth_name(Growth growth) {
  constexpr std::string_view kNames[] = {"growing", "fixed", "delta", "constant", "recurrent"};
  return kNames[static_cast<size_t>(growth)];
}

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"decoder", "encoder-decoder", "encoder", "other"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t State::bytes_per_token() const {
  if (growth == Growth::kRecurrent || position_axis < 0) return 0;
  constexpr int64_t kMost = int64_t{1} << 20;  // per factor, so that hostile sizes cannot overflow
  const int64_t n = std::min(n_layers, kMost) * std::min(n_heads, kMost) * (holds == Holds::kKeyValue ? 2 : 1);
  return static_cast<int64_t>(storage_bytes(dtype, std::min(n, kMost * kMost / 16) * std::min<int64_t>(head_dim, 1 << 16)));
}

const Port* File::input_of(Role role) const { return port_of(inputs, role); }
const Port* File::output_of(Role role) const { return port_of(outputs, role); }
bool File::takes_cache() const {
  return std::any_of(states.begin(), states.end(), [](const State& s) { return s.input >= 0 && !s.cross; });
}

const File* Signature::file_of(Stage stage) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const File& f) { return f.stage == stage; });
  return found == files.end() ? nullptr : &*found;
}

const File* Signature::first_step() const {
  const File* whole = file_of(Stage::kDecoder);
  if (whole != nullptr && (whole->takes_cache() || file_of(Stage::kDecoderWithPast) != nullptr)) return whole;
  if (const File* merged = file_of(Stage::kDecoderMerged)) return merged;
  return whole != nullptr ? whole : file_of(Stage::kDecoderWithPast);
}

const File* Signature::later_step() const {
  const File* first = first_step();
  if (first == nullptr || first->stage != Stage::kDecoder || first->takes_cache()) return first;
  const File* with_past = file_of(Stage::kDecoderWithPast);
  return with_past != nullptr ? with_past : first;
}

const File* Signature::encoder() const {
  if (kind != Kind::kEncoderDecoder) return nullptr;
  for (const Stage stage : {Stage::kEncoder, Stage::kAudioEncoder, Stage::kVisionEncoder}) {
    if (const File* file = file_of(stage)) return file;
  }
  return nullptr;
}

const File* Signature::embedder() const {
  if (kind != Kind::kDecoder && kind != Kind::kEncoder) return nullptr;
  const File* file = kind == Kind::kDecoder ? first_step() : file_of(Stage::kEncoder);
  if (file == nullptr || file->input_of(Role::kTokenIds) == nullptr) return nullptr;
  for (const Role role : {Role::kHiddenStates, Role::kSentenceEmbedding, Role::kPoolerOutput}) {
    if (file->output_of(role) != nullptr) return file;
  }
  return nullptr;
}

bool Signature::only_embeds() const {
  return embedder() != nullptr && (kind == Kind::kEncoder || embedder()->output_of(Role::kLogits) == nullptr);
}

bool Signature::can_rewind() const {
  const File* decoder = later_step();
  return decoder != nullptr &&
         std::none_of(decoder->states.begin(), decoder->states.end(), [](const State& s) { return s.growth == Growth::kRecurrent; });
}

int64_t Signature::cache_bytes_per_token() const {
  int64_t bytes = 0;
  for (const CacheGroup& group : cache) bytes += group.bytes_per_token;
  return bytes;
}

}  // namespace kvik::analysis
