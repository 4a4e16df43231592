#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvik {

// Incremental XXH3: identifies contents and detects corruption; not secure against forgery. The same on every machine.
class Hash {
 public:
  Hash();
  Hash(Hash&&) noexcept;
  Hash& operator=(Hash&&) noexcept;
  ~Hash();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);  // with its length, so that "ab", "c" differs from "a", "bc"
  void add(int64_t number);

  uint64_t value() const;
  std::string hex() const;  // all 128 bits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvik
