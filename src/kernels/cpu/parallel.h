#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"

// The products of whole matrices on all threads of a pool. Small ones stay on the calling thread.
namespace kvik::cpu {

// Panels that one item takes: enough items for every thread to have a few, none so small that handing it out costs more than it does.
int64_t panels_per_item(const WeightLayout& layout, int64_t n_rows, int n_threads);

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const FloatRows& x, const MatmulOut& out);
void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out);
void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const ByteRows& x, const MatmulOut& out);

}  // namespace kvik::cpu
