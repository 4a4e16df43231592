#pragma once

#include <string>
#include <string_view>

// Unicode properties and normalization for tokenizers, from utf8proc and ICU. Characters that are newer than the tables of the reference
// are treated as the reference treats them.
namespace kvik::text::unicode {

// Property White_Space, which is also what \s means.
bool is_white_space(char32_t c);
bool is_number(char32_t c);           // N
bool is_punctuation(char32_t c);      // P
bool is_mark(char32_t c);             // M
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_other(char32_t c);            // Cc, Cf, Co, Cs; not unassigned characters
bool is_word(char32_t c);             // Alphabetic, M, Nd, Pc, Join_Control
bool is_ascii_punctuation(char32_t c);

// The number of the script; 0 if unknown.
int script_of(char32_t c);
inline constexpr int kNoScript = 0;
int han_script();
int hiragana_script();
int katakana_script();

// Appends the lower case of one character, independent of context: no final sigma.
void append_lower(std::string& out, char32_t c);

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
// Appends `text` (valid UTF-8) in the form; linear, except for sorting runs of marks.
void append_normalized(std::string& out, std::string_view text, Form form);

// The end of the grapheme cluster that begins at `begin`.
size_t grapheme_end(std::string_view text, size_t begin);

}  // namespace kvik::text::unicode
