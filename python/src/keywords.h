#pragma once

#include <initializer_list>
#include <limits>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert.h"
#include "kvik/options.h"

namespace kvik::python {

// Keyword arguments of one call, taken by name into option structs. None means "not given". Throws TypeError for values of another type
// and, at finish(), for names that nothing took; the message suggests what was probably meant.
class Keywords {
 public:
  Keywords(std::string call, const nb::kwargs& given) : call_(std::move(call)), left_(nb::steal<nb::dict>(PyDict_Copy(given.ptr()))) {}

  // None if it was not given.
  nb::object take(const char* name);

  template <class T>
  void take(const char* name, T& target) {
    const nb::object value = take(name);
    if (!value.is_none()) read(name, value, target);
  }
  template <class T>
  void take(const char* name, std::optional<T>& target) {
    const nb::object value = take(name);
    if (!value.is_none()) read(name, value, target.emplace());
  }
  // One of several names for the same option; giving two is an error.
  template <class T>
  void take(std::initializer_list<const char*> names, T& target) {
    take(one_of(names), target);
  }
  template <class T>
  void take_choice(const char* name, T& target, std::initializer_list<std::pair<const char*, T>> choices) {
    std::optional<std::string> word;
    take(name, word);
    if (!word) return;
    for (const auto& [known, value] : choices) {
      if (*word == known) {
        target = value;
        return;
      }
    }
    std::vector<const char*> known;
    for (const auto& choice : choices) known.push_back(choice.first);
    refuse_choice(name, *word, known);
  }

  void take_sampling(Sampling& sampling);                    // every line of sampling_fields()
  void add_known(std::initializer_list<const char*> names);  // names that the Python code takes before, for suggestions
  void finish() const;

 private:
  template <class T>
  void read(const char* name, nb::handle value, T& target) const {
    if constexpr (std::is_same_v<T, bool>) {
      if (!PyBool_Check(value.ptr())) refuse(name, value, "True or False");
      target = value.ptr() == Py_True;
    } else if constexpr (std::is_integral_v<T>) {
      if (PyFloat_Check(value.ptr()) || !nb::try_cast(value, target))
        refuse_int(name, value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    } else if constexpr (std::is_floating_point_v<T>) {
      if (PyUnicode_Check(value.ptr()) || !nb::try_cast(value, target)) refuse(name, value, "a number");
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!nb::try_cast(value, target)) refuse(name, value, "a str");
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
      if (!nb::try_cast(value, target)) refuse(name, value, "a path");
    } else {
      read_list(name, value, target);
    }
  }
  void read_list(const char* name, nb::handle value, std::vector<TokenId>& target) const;
  void read_list(const char* name, nb::handle value, std::vector<std::string>& target) const;
  void read_list(const char* name, nb::handle value, std::vector<std::vector<TokenId>>& target) const;
  void read_list(const char* name, nb::handle value, std::vector<SequenceBias>& target) const;
  void read_list(const char* name, nb::handle value, std::vector<std::pair<TokenId, double>>& target) const;
  void read_list(const char* name, nb::handle value, DecayLengthPenalty& target) const;

  const char* one_of(std::initializer_list<const char*> names);
  std::string suggest(nb::handle unknown) const;
  [[noreturn]] void refuse(const char* name, nb::handle value, const char* expected) const;
  template <class T>
  [[noreturn]] void refuse_int(const char* name, nb::handle value, T lowest, T highest) const {
    refuse(name, value, ("an int from " + std::to_string(lowest) + " to " + std::to_string(highest)).c_str());
  }
  [[noreturn]] void refuse_choice(const char* name, const std::string& word, const std::vector<const char*>& known) const;

  std::string call_;
  nb::dict left_;
  nb::list known_;  // names that the call takes
};

}  // namespace kvik::python
