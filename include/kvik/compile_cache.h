#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kvik/options.h"

namespace kvik {

// The user's cache, which the command line uses: the folder is $KVIK_CACHE, else $XDG_CACHE_HOME/kvik, else ~/.cache/kvik; the limit is
// $KVIK_CACHE_BYTES if it is set (0: no cache). Throws Error(kBadArgument) if $KVIK_CACHE_BYTES is not a number.
CompileCache default_compile_cache();

// One compiled model in the cache.
struct CompiledFile {
  std::filesystem::path path;
  std::string model;  // name of the model's folder or file, and the weights format; empty if the file is damaged
  uint64_t size_bytes = 0;
  int64_t unused_s = 0;  // seconds since a model was last loaded from this file
};

// Most recently used first; empty if the folder does not exist.
std::vector<CompiledFile> list_compile_cache(const CompileCache& cache);

// Compares every file with the hashes computed when it was written; deletes damaged files and returns them.
std::vector<CompiledFile> check_compile_cache(const CompileCache& cache);

// Deletes every file, even those that other processes use: their mappings stay valid. Returns the bytes freed.
uint64_t clear_compile_cache(const CompileCache& cache);

}  // namespace kvik
