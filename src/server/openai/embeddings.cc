#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "server/openai/openai.h"
#include "server/service/embed.h"

namespace kvik::server::openai {
namespace {

constexpr size_t kMostInputs = 2048;

struct EmbeddingRequest {
  std::string model;
  Texts input;
  EmbedOptions options;
  bool base64 = false;
};

Texts read_input(const Fields& body, size_t most_bytes) {
  const Json* const input = body.find("input");
  if (input == nullptr) body.fail("input", "a string, a list of strings, or token ids");
  if (is_token_ids(*input)) return std::vector<std::vector<TokenId>>{input->get<std::vector<TokenId>>()};
  const bool is_lists = input->is_array() && !input->empty() && std::ranges::all_of(*input, is_token_ids);
  if (is_lists && input->size() <= kMostInputs) return input->get<std::vector<std::vector<TokenId>>>();
  std::vector<std::string> texts = body.texts("input", kMostInputs);
  if (texts.empty()) body.fail("input", "at least one text");
  size_t n_bytes = 0;
  for (const std::string& text : texts) n_bytes += text.size();
  if (n_bytes > most_bytes)
    throw ApiError(413, "", fmt::format("'input' has {} bytes; this server takes {}", n_bytes, most_bytes), "input");
  return texts;
}

EmbeddingRequest read_embedding_request(const Fields& body, const ServeOptions& limits) {
  EmbeddingRequest request;
  request.model = body.required_text("model");
  request.input = read_input(body, limits.max_prompt_bytes);
  if (const auto dimensions = body.integer("dimensions", 1, 1 << 20)) request.options.dimensions = static_cast<int>(*dimensions);
  const std::string format = body.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") body.fail("encoding_format", "\"float\" or \"base64\"");
  request.base64 = format == "base64";
  return request;
}

std::string in_base64(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t n) { return i + n < bytes.size() ? static_cast<uint8_t>(bytes[i + n]) : 0u; };
    const uint32_t bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (int digit = 0; digit < 4; ++digit) {
      const bool is_padding = static_cast<size_t>(digit) > bytes.size() - i;
      text += is_padding ? '=' : kDigits[bits >> (18 - 6 * digit) & 63];
    }
  }
  return text;
}

}  // namespace

void embeddings(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const EmbeddingRequest request = read_embedding_request(Fields(json), service.options);
  service.with_model(exchange, request.model, [&service, exchange, request](const Registry::Handle& model) {
    embed(service, exchange, model, request.input, request.options, [exchange, base64 = request.base64](const std::vector<Embedding>& all) {
      Json data = Json::array();
      for (const Embedding& vector : all) {
        Json values = base64 ? Json(in_base64(vector.values)) : Json(vector.values);
        data.push_back({{"object", "embedding"}, {"index", data.size()}, {"embedding", std::move(values)}});
      }
      const int n_tokens = exchange->counts.prompt_tokens;
      exchange->send({{"object", "list"},
                      {"data", std::move(data)},
                      {"model", exchange->model},
                      {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
    });
  });
}

}  // namespace kvik::server::openai
