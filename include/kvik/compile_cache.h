#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kvik/options.h"

namespace kvik {

// The user's: $KVIK_CACHE, else $XDG_CACHE_HOME/kvik, else ~/.cache/kvik; its limit is $KVIK_CACHE_BYTES if that is set, and 0 turns it
// off. The command line uses it. Throws Error(kBadArgument) if $KVIK_CACHE_BYTES is not a number.
CompileCache default_compile_cache();

// One compiled model in the folder.
struct CompiledFile {
  std::filesystem::path path;
  std::string model;  // name of its folder or file, and its weights format; empty if the file is damaged
  uint64_t size_bytes = 0;
  int64_t unused_s = 0;  // seconds since a model was last loaded from it
};

// Most recently used first. A missing folder is empty.
std::vector<CompiledFile> list_compile_cache(const CompileCache& cache);

// Reads every file and compares it with the hashes that were taken when it was written; deletes the damaged ones and returns them.
std::vector<CompiledFile> check_compile_cache(const CompileCache& cache);

// Deletes every file, also those that other programs use: they keep what they have mapped. Returns the bytes freed.
uint64_t clear_compile_cache(const CompileCache& cache);

}  // namespace kvik
