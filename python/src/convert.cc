#include "convert.h"

#include <limits>

#include "kvik/error.h"

namespace kvik::python {
namespace {

[[noreturn]] void refuse_type(const char* expected, nb::handle found) {
  const nb::str type = nb::str(found.type().attr("__name__"));
  throw nb::type_error((std::string(expected) + ", not " + type.c_str()).c_str());
}

[[noreturn]] void refuse_ids(nb::handle found) {
  refuse_type("token ids must be an int, a sequence of ints or a one-dimensional array of integers", found);
}

TokenId token_id(long long id) {
  if (id < std::numeric_limits<TokenId>::min() || id > std::numeric_limits<TokenId>::max())
    throw Error(Code::kBadArgument, "token id " + std::to_string(id) + " is not a 32-bit number");
  return static_cast<TokenId>(id);
}

TokenId token_id(nb::handle id) {
  if (PyFloat_Check(id.ptr()) || PyBool_Check(id.ptr()) || !PyIndex_Check(id.ptr())) refuse_ids(id);
  const nb::object number = nb::steal(PyNumber_Index(id.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) throw Error(Code::kBadArgument, "a token id is not a 32-bit number");
  return token_id(value);
}

template <class T>
bool append_array(const nb::ndarray<nb::ro>& array, std::vector<TokenId>& ids) {
  if (array.dtype() != nb::dtype<T>()) return false;
  const auto* const first = static_cast<const T*>(array.data());
  for (size_t i = 0; i < array.shape(0); ++i) {
    const T id = first[static_cast<int64_t>(i) * array.stride(0)];
    if (!std::in_range<TokenId>(id)) throw Error(Code::kBadArgument, "token id " + std::to_string(id) + " is not a 32-bit number");
    ids.push_back(static_cast<TokenId>(id));
  }
  return true;
}

template <class... T>
bool append_any(const nb::ndarray<nb::ro>& array, std::vector<TokenId>& ids) {
  return (append_array<T>(array, ids) || ...);
}

template <class T>
nb::capsule owner_of(std::unique_ptr<T> values) {
  return nb::capsule(values.release(), [](void* kept) noexcept { delete static_cast<T*>(kept); });
}

template <class T>
auto array_over(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const T* const first = kept->data();
  const size_t n = kept->size();
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(first, {n}, owner_of(std::move(kept)));
}

}  // namespace

std::string utf8_of(nb::handle text) {
  if (!PyUnicode_Check(text.ptr())) refuse_type("a text must be a str", text);
  Py_ssize_t n_bytes = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &n_bytes);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<size_t>(n_bytes)};
}

nb::str text_of(std::string_view utf8) {
  PyObject* text = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
  if (text == nullptr) {
    PyErr_Clear();
    text = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace");
  }
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

std::vector<TokenId> token_ids(nb::handle given) {
  std::vector<TokenId> ids;
  if (PyList_Check(given.ptr()) || PyTuple_Check(given.ptr())) {
    ids.reserve(nb::len(given));
    for (const nb::handle id : given) ids.push_back(token_id(id));
    return ids;
  }
  if (PyLong_Check(given.ptr())) return {token_id(given)};
  nb::ndarray<nb::ro> array;
  if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr())) refuse_ids(given);
  if (nb::try_cast(given, array, false)) {
    if (array.ndim() == 0 && PyIndex_Check(given.ptr())) return {token_id(given)};
    if (array.ndim() != 1 || array.device_type() != nb::device::cpu::value) refuse_ids(given);
    ids.reserve(array.shape(0));
    if (append_any<int32_t, int64_t, uint32_t, uint64_t, int16_t, uint16_t, int8_t, uint8_t>(array, ids) || array.shape(0) == 0) return ids;
    refuse_ids(given);
  }
  if (PyIndex_Check(given.ptr())) return {token_id(given)};
  if (PySequence_Check(given.ptr()) == 0) refuse_ids(given);
  for (const nb::handle id : given) ids.push_back(token_id(id));
  return ids;
}

std::vector<std::vector<TokenId>> token_id_lists(nb::handle lists) {
  std::vector<std::vector<TokenId>> all;
  for (const nb::handle ids : lists) all.push_back(token_ids(ids));
  return all;
}

FloatVector array_of(std::shared_ptr<const float[]> values, size_t n) {
  const float* const first = values.get();
  return {first, {n}, owner_of(std::make_unique<std::shared_ptr<const float[]>>(std::move(values)))};
}

FloatVector array_of(std::vector<float> values) { return array_over(std::move(values)); }
IdVector array_of(std::vector<TokenId> ids) { return array_over(std::move(ids)); }

Matrix matrix_of(const std::vector<Embedding>& embeddings) {
  auto values = std::make_unique<std::vector<float>>();
  const size_t width = embeddings.empty() ? 0 : embeddings.front().values.size();
  values->reserve(width * embeddings.size());
  for (const Embedding& embedding : embeddings) values->insert(values->end(), embedding.values.begin(), embedding.values.end());
  float* const first = values->data();
  return {first, {embeddings.size(), width}, owner_of(std::move(values))};
}

}  // namespace kvik::python
