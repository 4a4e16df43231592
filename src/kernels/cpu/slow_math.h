#pragma once

// What has no fast form, 16 values at a time, in place: one copy for all instruction sets, so that results have the same bits.
namespace kvik::cpu {

void slow_sin(float* x);
void slow_cos(float* x);
void slow_pow(float* base, const float* exponent);  // correctly rounded but for rare ties, through double

}  // namespace kvik::cpu
