#pragma once

#include <fmt/format.h>
#include <string_view>

// The only place in the command line that writes to standard output and standard error.
namespace kvik::cli {

// Makes sure that descriptors 0, 1 and 2 are open, so that no file that is opened later gets one of these numbers. Reading or writing a
// stream that was closed still fails.
void open_standard_streams();

// Results. They throw Error(kIo) as soon as standard output is known to be full or closed, so that no result is lost silently.
void print_text(std::string_view text);
template <class... Args>
void print_result(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::vformat(format, fmt::make_format_args(args...)));
}
void flush_output();
// Flushes and closes standard output: some file systems report a full disk only then. Nothing may be printed afterward.
void close_output();

// One line for the user, "kvik: SENTENCE", on standard error. Control characters are escaped. It never throws: if standard error is closed,
// it cannot be reported.
void print_sentence(std::string_view sentence) noexcept;
template <class... Args>
void print_message(fmt::format_string<Args...> format, Args&&... args) {
  print_sentence(fmt::vformat(format, fmt::make_format_args(args...)));
}
// Prints text on standard error without escaping it: only for texts of the program itself, such as progress lines.
void print_error_text(std::string_view text) noexcept;

}  // namespace kvik::cli
