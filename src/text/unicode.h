#pragma once

#include <string>
#include <string_view>

// What tokenizers ask of Unicode. The tables are those of utf8proc and ICU; characters younger than the tables of the reference
// count as it counts them.
namespace kvik::text::unicode {

// Property White_Space, which is also what \s means.
bool is_white_space(char32_t c);
bool is_number(char32_t c);           // N
bool is_punctuation(char32_t c);      // P
bool is_mark(char32_t c);             // M
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_other(char32_t c);            // Cc, Cf, Co, Cs; what is not assigned does not count
bool is_word(char32_t c);             // Alphabetic, M, Nd, Pc, Join_Control
bool is_ascii_punctuation(char32_t c);

// A number for the script; 0 where it is unknown.
int script_of(char32_t c);
inline constexpr int kNoScript = 0;
int han_script();
int hiragana_script();
int katakana_script();

// Appends the lower case of one character, whatever its neighbours: no final sigma.
void append_lower(std::string& out, char32_t c);

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
// Appends `text` (valid UTF-8) in the form; linear but for a sort of every run of marks.
void append_normalized(std::string& out, std::string_view text, Form form);

// Where the user-perceived character that begins at `begin` ends.
size_t grapheme_end(std::string_view text, size_t begin);

}  // namespace kvik::text::unicode
