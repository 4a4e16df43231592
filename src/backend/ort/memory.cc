#include "backend/ort/memory.h"

#include <map>
#include <memory>
#include <mutex>

#include "base/arena.h"

namespace kvik::backend::ort {
namespace {

// Called by the runtime. Never destroyed, because values of the runtime may outlive everything else.
struct ArenaAllocator : Allocator {
  explicit ArenaAllocator(const MemoryInfo* of) : Allocator{kApiVersion, &take, &give_back, &describe}, memory(of) {}

  static void* take(Allocator* self, size_t size_bytes) {
    return size_bytes == 0 ? nullptr : static_cast<ArenaAllocator*>(self)->arena.allocate(size_bytes);
  }
  static void give_back(Allocator* self, void* data) { static_cast<ArenaAllocator*>(self)->arena.free(data); }
  static const MemoryInfo* describe(const Allocator* self) { return static_cast<const ArenaAllocator*>(self)->memory; }

  const MemoryInfo* memory;
  Arena arena;
};

// One per opened runtime. Opening the runtime again gives the same environment.
Status* register_arena(const Api& api, Env* env) {
  static std::mutex mutex;
  static std::map<const Env*, std::unique_ptr<ArenaAllocator>>& allocators = *new std::map<const Env*, std::unique_ptr<ArenaAllocator>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<ArenaAllocator>& allocator = allocators[env];
  if (allocator != nullptr) return nullptr;
  MemoryInfo* memory = nullptr;
  if (Status* status = api.create_cpu_memory_info(AllocatorType::kDevice, MemoryType::kDefault, &memory)) return status;
  allocator = std::make_unique<ArenaAllocator>(memory);
  return api.register_allocator(env, allocator.get());
}

}  // namespace

bool offer_huge_pages(const Api& api, Env* env) {
  Status* status = register_arena(api, env);
  if (status == nullptr) return true;
  api.release_status(status);
  return false;
}

}  // namespace kvik::backend::ort
