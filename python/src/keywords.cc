#include "keywords.h"

#include <string_view>

#include "kvik/error.h"

namespace kvik::python {
namespace {

// Pairs of a dict or of a sequence of pairs.
nb::object pairs_of(nb::handle value) { return PyDict_Check(value.ptr()) ? nb::steal(PyDict_Items(value.ptr())) : nb::borrow(value); }

// Options of Hugging Face's generate() without a counterpart here, and what to do instead.
constexpr std::pair<std::string_view, const char*> kInstead[] = {
    {"streamer", "iterate over the result"},
    {"num_return_sequences", "call it once per result, each with its own seed, or use kvik.pipeline"},
    {"return_dict_in_generate", "the result has ids, tokens, finish and metrics"},
    {"output_scores", "set logprobs, or use Session.logits"},
    {"output_logits", "use Session.logits"},
    {"output_hidden_states", "use Model.hidden_states"},
    {"logits_processor", "use a Session and its logits, or json_schema, regex or grammar"},
    {"stopping_criteria", "leave the loop over the result"},
    {"attention_mask", "nothing is padded"},
    {"max_time", "use Engine.submit with a timeout"},
    {"prompt_lookup_num_tokens", "set speculate='lookup'"},
    {"generation_config", "pass its fields as keyword arguments"},
};

}  // namespace

nb::object Keywords::take(const char* name) {
  const nb::str key(name);
  known_.append(key);
  if (!left_.contains(key)) return nb::none();
  nb::object value = left_[key];
  nb::del(left_[key]);
  return value;
}

void Keywords::take_sampling(Sampling& sampling) {
  for (const SamplingField& field : sampling_fields())
    std::visit([&](auto member) { take(std::string(field.name).c_str(), sampling.*member); }, field.member);
}

void Keywords::add_known(std::initializer_list<const char*> names) {
  for (const char* const name : names) known_.append(nb::str(name));
}

void Keywords::finish() const {
  for (const auto& [name, value] : left_)
    throw nb::type_error((call_ + "() got an unexpected keyword argument '" + nb::str(name).c_str() + "'" + suggest(name)).c_str());
}

std::string Keywords::suggest(nb::handle unknown) const {
  for (const auto& [name, instead] : kInstead)
    if (name == nb::str(unknown).c_str()) return std::string("; ") + instead;
  const nb::object close = nb::module_::import_("difflib").attr("get_close_matches")(unknown, known_, 1);
  return nb::len(close) == 0 ? "" : std::string("; did you mean '") + nb::str(nb::object(close[0])).c_str() + "'?";
}

void Keywords::read_list(const char* name, nb::handle value, std::vector<TokenId>& target) const {
  try {
    target = token_ids(value);
  } catch (const nb::builtin_exception&) { refuse(name, value, "a token id or a list of them"); }
}

void Keywords::read_list(const char* name, nb::handle value, std::vector<std::string>& target) const {
  if (PyUnicode_Check(value.ptr())) {
    target = {nb::cast<std::string>(value)};
  } else if (!nb::try_cast(value, target)) {
    refuse(name, value, "a str or a list of them");
  }
}

void Keywords::read_list(const char* name, nb::handle value, std::vector<std::vector<TokenId>>& target) const {
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) refuse(name, value, "a list of lists of token ids");
  target = token_id_lists(value);
}

// As in Hugging Face: {(ids…): bias} or [[ids, bias], …].
void Keywords::read_list(const char* name, nb::handle value, std::vector<SequenceBias>& target) const {
  for (const nb::handle pair : pairs_of(value)) {
    SequenceBias bias;
    if (nb::len(pair) != 2 || !nb::try_cast(nb::object(pair[1]), bias.bias)) refuse(name, value, "{(ids, …): bias}");
    bias.ids = token_ids(nb::object(pair[0]));
    target.push_back(std::move(bias));
  }
}

void Keywords::read_list(const char* name, nb::handle value, std::vector<std::pair<TokenId, double>>& target) const {
  for (const nb::handle pair : pairs_of(value)) {
    double bias = 0;
    if (nb::len(pair) != 2 || !nb::try_cast(nb::object(pair[1]), bias)) refuse(name, value, "{id: bias}");
    const std::vector<TokenId> ids = token_ids(nb::object(pair[0]));
    if (ids.size() != 1) refuse(name, value, "{id: bias}");
    target.emplace_back(ids.front(), bias);
  }
}

void Keywords::read_list(const char* name, nb::handle value, DecayLengthPenalty& target) const {
  if (PySequence_Check(value.ptr()) == 0 || nb::len(value) != 2 || !nb::try_cast(nb::object(value[0]), target.start) ||
      !nb::try_cast(nb::object(value[1]), target.factor))
    refuse(name, value, "(start, factor)");
}

const char* Keywords::one_of(std::initializer_list<const char*> names) {
  add_known(names);
  const char* found = *names.begin();
  int n_found = 0;
  for (const char* const name : names) {
    if (!left_.contains(nb::str(name)) || nb::object(left_[name]).is_none()) continue;
    if (n_found++ > 0)
      throw nb::type_error((call_ + "() got both '" + found + "' and '" + name + "', which are names of the same option").c_str());
    found = name;
  }
  return found;
}

void Keywords::refuse(const char* name, nb::handle value, const char* expected) const {
  const nb::str found = nb::repr(value);
  throw nb::type_error((std::string(name) + " is " + std::string(found.c_str()).substr(0, 80) + "; expected " + expected).c_str());
}

void Keywords::refuse_choice(const char* name, const std::string& word, const std::vector<const char*>& known) const {
  std::string all;
  for (const char* const each : known) all += (all.empty() ? "" : ", ") + std::string(each);
  throw Error(Code::kBadArgument, std::string(name) + " is '" + word + "'; expected one of: " + all);
}

}  // namespace kvik::python
