#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvik {

// XXH3 over bytes that come piece by piece: tells contents apart and finds damage; no protection against forgery. The same on every
// machine.
class Hash {
 public:
  Hash();
  Hash(Hash&&) noexcept;
  Hash& operator=(Hash&&) noexcept;
  ~Hash();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);  // with its length, so that "ab", "c" is not "a", "bc"
  void add(int64_t number);

  uint64_t value() const;
  std::string hex() const;  // of 128 bits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvik
