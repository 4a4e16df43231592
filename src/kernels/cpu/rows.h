#pragma once

#include <cstddef>
#include <cstdint>

// Rows that are multiplied by weights, and where the results go. Views: memory belongs to the caller. No inline functions here.
namespace kvik::cpu {

struct FloatRows {
  const float* data;  // [n_rows][stride], the first k of each used
  int64_t stride;
  int64_t n_rows;
};
FloatRows rows_from(const FloatRows& rows, int64_t first, int64_t n_rows);

// Rows quantized to int8 in blocks of 128 values: x = q * scale. A block that holds an infinity or NaN has q = 0 and scale = NaN, so
// whatever it touches becomes NaN; magnitudes below 1e-30 count as zero. Parts are what a block of the row and one of the weights share.
constexpr int kRowBlock = 128;
struct QuantizedRows {
  int64_t n_rows, k;
  int64_t n_steps;   // of a row, an even number: 32 * n_steps >= k, padded with zeros
  int64_t n_blocks;  // of a row; the last one may have half as many values
  int64_t part;      // values of a part: 16, 32, 64 or 128
  int64_t n_parts;   // of a row
  int8_t* q;         // [n_rows][32 * n_steps], -127..127
  float* scale;      // [n_rows][n_blocks]
  int32_t* sum;      // [n_rows][n_parts] of q
};
size_t quantized_bytes(int64_t n_rows, int64_t k);  // enough for parts of any size
// memory: 64-byte aligned, quantized_bytes() long.
QuantizedRows quantized_rows(std::byte* memory, int64_t n_rows, int64_t k, int64_t part);
QuantizedRows rows_from(const QuantizedRows& rows, int64_t first, int64_t n_rows);

// Rows quantized as DynamicQuantizeLinear does it, each by itself, or as QuantizeLinear does it, with one scale for all rows:
// x = (q + 128 - zero_point) * scale with one scale per row.
struct ByteRows {
  int64_t n_rows, k;
  int64_t stride;       // bytes from row to row, padded with zeros
  int8_t* q;            // the unsigned value - 128
  float* scale;         // [n_rows]
  int32_t* zero_point;  // [n_rows] 0..255
  int32_t* sum;         // [n_rows] of q
  float fixed_scale;    // of every row; 0: each row finds its own
  int32_t fixed_zero_point;
};
size_t byte_rows_bytes(int64_t n_rows, int64_t k);
ByteRows byte_rows(std::byte* memory, int64_t n_rows, int64_t k);
ByteRows rows_from(const ByteRows& rows, int64_t first, int64_t n_rows);

// out[row * stride + column] = sum (+ bias[column]); only real columns are written.
struct MatmulOut {
  float* data;
  int64_t stride;
  const float* bias;  // [n] or null
};

struct PanelRange {
  int64_t begin, end;
};

}  // namespace kvik::cpu
