#include <gtest/gtest.h>

#include "analysis/port_names.h"

namespace kvik::analysis {
namespace {

TEST(PortNames, APastAndItsPresentNameTheSameState) {
  const std::pair<const char*, const char*> pairs[] = {
      {"past_key_values.3.key", "present.3.key"},
      {"past_key_values.3.key", "present_key_values.3.key"},
      {"past_key_values.3.decoder.value", "present.3.decoder.value"},
      {"past_key_values.3.encoder.key", "present.3.encoder.key"},
      {"past_key_values.3.key_value", "present.3.key_value"},
      {"past_key_3", "present_key_3"},
      {"past_key_3", "new_past_key_3"},
      {"past_key_3", "new_key_3"},
      {"past_key_values_key_3", "present_key_values_key_3"},
      {"past_key_values_3_value", "present_3_value"},
      {"past_3", "present_3"},
      {"past_key_self_3", "present_key_self_3"},
      {"past_value_cross_3", "present_value_cross_3"},
      {"cache_k_in.3", "cache_k_out.3"},
      {"k_cache_3", "new_k_cache_3"},
      {"k_cache_3", "k_cache_3_out"},
      {"key_cache.3", "updated_key_cache.3"},
      {"past_conv.3", "present_conv.3"},
      {"past_ssm.3", "present_ssm.3"},
      {"past_recurrent.3", "present_recurrent.3"},
      {"rnn_states_prev", "rnn_states"},
  };
  for (const auto& [past, present] : pairs) {
    EXPECT_TRUE(state_name(past).same_state(state_name(present))) << past << " " << present;
    EXPECT_TRUE(state_name(past).looks_like_state) << past;
    EXPECT_TRUE(state_name(present).looks_like_state) << present;
  }
}

TEST(PortNames, DifferentStatesHaveDifferentNames) {
  EXPECT_FALSE(state_name("past_key_values.3.key").same_state(state_name("present.3.value")));
  EXPECT_FALSE(state_name("past_key_values.3.key").same_state(state_name("present.4.key")));
  EXPECT_FALSE(state_name("past_key_values.3.decoder.key").same_state(state_name("present.3.encoder.key")));
  EXPECT_FALSE(state_name("past_conv.3").same_state(state_name("present_ssm.3")));
}

TEST(PortNames, TheSecondNumberOfANestedTupleDistinguishesKeysFromValues) {
  EXPECT_EQ(state_name("past_key_values_5_0").kind, NameKind::kKey);
  EXPECT_EQ(state_name("past_key_values_5_1").kind, NameKind::kValue);
  EXPECT_EQ(state_name("past_key_values_5_1").layer, 5);
  EXPECT_TRUE(state_name("past_key_values_5_3").cross);
}

TEST(PortNames, HiddenStatesAndControlInputsAreNotStates) {
  for (const char* name : {"encoder_hidden_states", "last_hidden_state", "hidden_states.3", "logits", "past_key_values_length",
                           "cache_position", "attention_mask", "inputs_embeds"}) {
    EXPECT_FALSE(state_name(name).looks_like_state) << name;
  }
}

TEST(PortNames, NamesSuggestTheRolesOfControlInputs) {
  const std::pair<const char*, NameHint> hints[] = {
      {"input_ids", NameHint::kTokens},
      {"tokens", NameHint::kTokens},
      {"decoder_input_ids", NameHint::kTokens},
      {"inputs_embeds", NameHint::kEmbeds},
      {"attention_mask", NameHint::kMask},
      {"attn_mask", NameHint::kMask},
      {"encoder_attention_mask", NameHint::kEncoderMask},
      {"position_ids", NameHint::kPositions},
      {"pos_id", NameHint::kPositions},
      {"cache_position", NameHint::kCachePosition},
      {"token_type_ids", NameHint::kSegments},
      {"use_cache_branch", NameHint::kUseCache},
      {"num_logits_to_keep", NameHint::kLogitsToKeep},
      {"write_indices", NameHint::kWriteIndices},
      {"nonpad_kv_seqlen", NameHint::kLength},
      {"past_sequence_length", NameHint::kLength},
      {"encoder_hidden_states", NameHint::kEncoderHidden},
      {"input_features", NameHint::kAudio},
      {"pixel_values", NameHint::kPixels},
      {"x", NameHint::kNothing},
  };
  for (const auto& [name, hint] : hints) EXPECT_EQ(name_hint(name), hint) << name;
}

TEST(PortNames, ALongNumberIsNotALayer) { EXPECT_FALSE(state_name("past_key_123456789012345").layer.has_value()); }

}  // namespace
}  // namespace kvik::analysis
