#pragma once

#include <string_view>

// Which input and output of an attention operator is what, and which attribute counts its heads. Analysis, the native compiler and the
// reference evaluator all read this table, so that an operator's signature is written down once.
namespace kvik::onnx {

inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";

// Indices into a node's inputs (and outputs where it says so); -1: the operator has none.
struct AttentionOperator {
  std::string_view domain, op;
  std::string_view query_heads, kv_heads;  // attributes: how many heads there are of each

  // Rows: projected ones, or tokens with the weights that project them.
  int query = -1, key = -1, value = -1;
  int rows = -1, projection = -1;
  int rows_scale = -1, rows_zero_point = -1, projection_scale = -1, projection_zero_point = -1;  // of quantized ones
  int bias = -1;  // added to projected queries, keys and values

  // Who sees whom.
  int padding_mask = -1;                          // which keys exist: [batch, keys], or a count per batch entry
  int score_mask = -1;                            // added to scores, or (of bools) what is seen
  int block_row_starts = -1, block_columns = -1;  // which blocks of keys each block of queries sees, in compressed row storage

  // The cache. present_* are outputs.
  int past_key = -1, past_value = -1;
  int past_key_value = -1;  // both in one tensor
  int present_key = -1, present_value = -1, present_key_value = -1;
  int position_axis = -1;  // of past and present
  int cache_indirection = -1;
  int block_table = -1, slots = -1;  // of a cache in blocks: the blocks of each sequence, the place of each new token
  int query_starts = -1;             // where the tokens of each sequence begin, if all of them are in one list

  // Lengths.
  int last_key = -1;      // number of keys less one, per batch entry
  int total_length = -1;  // number of keys
  int key_lengths = -1;   // number of keys, per batch entry
  int past_length = -1;
  int valid_keys = -1;  // number of keys per batch entry in a buffer of fixed size; queries are the last of them

  // Rotary positions inside the operator.
  int cosines = -1, sines = -1, positions = -1;

  int sinks = -1;
  int key_scale = -1, value_scale = -1;  // of a quantized cache
  int query_norm = -1, key_norm = -1;
};

inline constexpr AttentionOperator kAttentionOperators[] = {
    {.domain = "",
     .op = "Attention",
     .query_heads = "q_num_heads",
     .kv_heads = "kv_num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .score_mask = 3,
     .past_key = 4,
     .past_value = 5,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 2,
     .valid_keys = 6},
    {.domain = kMicrosoftDomain,
     .op = "GroupQueryAttention",
     .query_heads = "num_heads",
     .kv_heads = "kv_num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .score_mask = 10,
     .past_key = 3,
     .past_value = 4,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 2,
     .last_key = 5,
     .total_length = 6,
     .cosines = 7,
     .sines = 8,
     .positions = 9,
     .sinks = 11,
     .key_scale = 12,
     .value_scale = 13,
     .query_norm = 14,
     .key_norm = 15},
    {.domain = kMicrosoftDomain,
     .op = "MultiHeadAttention",
     .query_heads = "num_heads",
     .kv_heads = "num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .bias = 3,
     .padding_mask = 4,
     .score_mask = 5,
     .past_key = 6,
     .past_value = 7,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 2,
     .cache_indirection = 9,
     .past_length = 8},
    {.domain = kMicrosoftDomain,
     .op = "DecoderMaskedMultiHeadAttention",
     .query_heads = "num_heads",
     .kv_heads = "num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .bias = 10,
     .padding_mask = 3,
     .score_mask = 4,
     .past_key = 5,
     .past_value = 6,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 2,
     .cache_indirection = 9,
     .past_length = 7},
    {.domain = kMicrosoftDomain,
     .op = "Attention",
     .query_heads = "num_heads",
     .kv_heads = "num_heads",
     .rows = 0,
     .projection = 1,
     .bias = 2,
     .padding_mask = 3,
     .score_mask = 5,
     .past_key_value = 4,
     .present_key_value = 1,
     .position_axis = 3,
     .past_length = 6},
    {.domain = kMicrosoftDomain,
     .op = "DecoderMaskedSelfAttention",
     .query_heads = "num_heads",
     .kv_heads = "num_heads",
     .rows = 0,
     .projection = 1,
     .bias = 2,
     .padding_mask = 3,
     .past_key_value = 4,
     .present_key_value = 1,
     .position_axis = 3,
     .past_length = 6},
    {.domain = kMicrosoftDomain,
     .op = "QAttention",
     .query_heads = "num_heads",
     .kv_heads = "num_heads",
     .rows = 0,
     .projection = 1,
     .rows_scale = 3,
     .rows_zero_point = 6,
     .projection_scale = 4,
     .projection_zero_point = 7,
     .bias = 2,
     .padding_mask = 5,
     .past_key_value = 8,
     .present_key_value = 1,
     .position_axis = 3},
    {.domain = kMicrosoftDomain,
     .op = "SparseAttention",
     .query_heads = "num_heads",
     .kv_heads = "kv_num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .block_row_starts = 5,
     .block_columns = 6,
     .past_key = 3,
     .past_value = 4,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 2,
     .total_length = 7,
     .key_lengths = 8,
     .cosines = 9,
     .sines = 10},
    {.domain = kMicrosoftDomain,
     .op = "PagedAttention",
     .query_heads = "num_heads",
     .kv_heads = "kv_num_heads",
     .query = 0,
     .key = 1,
     .value = 2,
     .past_key = 3,
     .past_value = 4,
     .present_key = 1,
     .present_value = 2,
     .position_axis = 1,
     .block_table = 7,
     .slots = 10,
     .query_starts = 5,
     .past_length = 6,
     .cosines = 8,
     .sines = 9,
     .sinks = 11,
     .query_norm = 12,
     .key_norm = 13},
};

// Null for an operator that is not attention.
constexpr const AttentionOperator* attention_operator(std::string_view domain, std::string_view op) {
  for (const AttentionOperator& known : kAttentionOperators) {
    if (known.op == op && known.domain == domain) return &known;
  }
  return nullptr;
}

}  // namespace kvik::onnx
