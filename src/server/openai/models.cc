#include "server/openai/openai.h"

namespace kvik::server::openai {
namespace {

Json model_json(const ModelFacts& facts) {
  return {{"id", facts.name}, {"object", "model"}, {"created", facts.modified}, {"owned_by", "kvik"}, {"kind", facts.kind}};
}

}  // namespace

void models(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const Registry::Status& model : service.registry.list()) list.push_back(model_json(model.facts));
  exchange->send({{"object", "list"}, {"data", std::move(list)}});
}

void one_model(Service& service, const std::shared_ptr<Exchange>& exchange) {
  constexpr std::string_view kBefore = "/v1/models/";
  exchange->send(model_json(service.registry.facts(std::string_view(exchange->request.path).substr(kBefore.size()))));
}

}  // namespace kvik::server::openai
