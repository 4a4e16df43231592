#include "hub/digest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <vector>

#include "kvik/error.h"

namespace kvik::hub {
namespace {

constexpr size_t kSha256Digits = 64, kSha1Digits = 40;

}  // namespace

bool is_digest(const std::string& text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return (text.size() == kSha256Digits || text.size() == kSha1Digits) && std::ranges::all_of(text, is_hex);
}

std::string digest_of(const std::filesystem::path& file, size_t n_digits) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const auto check = [&](int success) {
    if (context == nullptr || success != 1) throw Error(Code::kInternal, "OpenSSL could not compute a checksum");
  };
  check(EVP_DigestInit_ex(context.get(), n_digits == kSha256Digits ? EVP_sha256() : EVP_sha1(), nullptr));
  if (n_digits == kSha1Digits) {
    const std::string header = fmt::format("blob {}", std::filesystem::file_size(file));
    check(EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1));  // with the zero byte
  }
  std::ifstream input(file, std::ios::binary);
  std::vector<char> buffer(size_t{1} << 20);
  while (input) {
    input.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    check(EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(input.gcount())));
  }
  if (!input.eof()) throw Error(Code::kIo, fmt::format("{}: the file cannot be read", file.string()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int n_bytes = 0;
  check(EVP_DigestFinal_ex(context.get(), digest, &n_bytes));
  std::string text;
  for (unsigned int i = 0; i < n_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace kvik::hub
