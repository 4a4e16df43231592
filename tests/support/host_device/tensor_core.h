#pragma once

#include <cstdint>

// One sum of a tensor core (Hopper), as published models of it describe it and as kernels were measured to compute it: 16 products of f16
// and an f32 accumulator are aligned to the largest exponent, truncated to 25 bits below it, added exactly, and rounded toward zero. Order
// inside the sum does not matter, and products with zero change nothing.
namespace kvik::testing_support {

float tensor_core_sum(const uint16_t* a, const uint16_t* b, float sum);  // [16]

// The sum over n products in steps of 16, from zero; n is a multiple of 16.
float tensor_core_chain(const uint16_t* a, const uint16_t* b, int64_t n);

}  // namespace kvik::testing_support
