#pragma once

#include <filesystem>
#include <memory>

#include "kernels/cuda/launches.h"
#include "kernels/cuda/modules.h"
#include "kernels/device/device.h"

namespace kvik::cuda {

struct CudaOptions {
  int index = 0;                 // of the GPU
  KernelSearch kernels;          // libkvik-cuda.so
  std::filesystem::path driver;  // empty: libcuda.so.1
  int n_units = 0;               // multiprocessors that launches are sized for; 0: all. Changes no bit
  bool merges_rows = true;       // consecutive row steps into one launch. Changes no bit
  bool wide_products = true;     // wgmma for products of more than 8 rows. Changes no bit
  bool fuses_products = true;    // steps around a product of few rows into its launch. Changes no bit
  bool fuses_attention = true;   // rotary, append and merging into the launch of an attention. Changes no bit
  bool chains_rows = true;       // row steps that keep their elements in registers. Changes no bit
  bool quick_kernels = true;     // short kernels for common products and attentions of few rows. Changes no bit
  bool overlaps = true;          // a launch starts before the one before it has ended. Changes no bit
  // Which decode attentions have a warp for each span of 128 positions. Changes no bit
  SpanWarps span_warps = SpanWarps::kAuto;
};

// A GPU. Throws Error with one sentence: kIo if the driver or the kernels are not found, kUnsupported if they are too old or no GPU can run
// them, kBadArgument if there is no GPU of that index.
std::shared_ptr<device::Device> open_device(const CudaOptions& options = {});

}  // namespace kvik::cuda
