#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "base/escape.h"
#include "cli/inspect.h"

namespace kvik::cli {
namespace {

constexpr std::string_view kBold = "1", kDim = "2", kGreen = "32", kYellow = "33", kCyan = "36";

std::string shape_text(const PortInfo& port) { return port.shape ? fmt::format("[{}]", fmt::join(*port.shape, ", ")) : "?"; }

std::string numbers_text(const std::vector<int>& numbers) {
  const bool in_a_row = numbers.size() > 2 && numbers.back() - numbers.front() + 1 == static_cast<int>(numbers.size());
  if (in_a_row) return fmt::format("{}..{}", numbers.front(), numbers.back());
  return fmt::format("{}", fmt::join(numbers, ","));
}

// A name cut at its first number.
struct CutName {
  std::string before, after;
  int number = -1;
};
CutName cut(const std::string& name) {
  const size_t at = name.find_first_of("0123456789");
  if (at == std::string::npos) return {name, "", -1};
  const size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
  if (end - at > 6) return {name, "", -1};
  return {name.substr(0, at), name.substr(end), std::stoi(name.substr(at, end - at))};
}

struct PortRun {
  CutName name;
  std::vector<std::string> ends;
  std::vector<int> numbers;
  PortLine line;
};

class Table {
 public:
  explicit Table(bool color) : color_(color) {}

  // Names from files are escaped here.
  void title(std::string_view text) { out_ += fmt::format("\n{}\n", paint(escape_controls(text), kBold)); }
  void line(std::string_view text, std::string_view color = {}) { out_ += fmt::format("  {}\n", paint(escape_controls(text), color)); }

  void rows(const std::vector<std::vector<std::string>>& rows, const std::vector<std::string_view>& colors) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(escape_controls(row[i])));
    }
    for (const auto& row : rows) {
      std::string text = "  ";
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string cell = escape_controls(row[i]);
        text += paint(cell, i < colors.size() ? colors[i] : std::string_view());
        if (i + 1 < row.size()) text.append(widths[i] - columns(cell) + 2, ' ');
      }
      out_ += text + "\n";
    }
  }

  std::string paint(std::string_view text, std::string_view code) const {
    if (!color_ || code.empty() || text.empty()) return std::string(text);
    return fmt::format("\033[{}m{}\033[0m", code, text);
  }
  std::string take() { return std::move(out_); }
  void start(std::string_view text) { out_ += text; }

 private:
  // Bytes that start a character; names are ASCII but for the odd exporter.
  static size_t columns(const std::string& text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }
  bool color_;
  std::string out_;
};

std::string group_text(const CacheInfo& group) {
  const std::string layers = group.n_layers == 1 ? fmt::format("1 layer ({})", numbers_text(group.layers))
                                                 : fmt::format("{} layers ({})", group.n_layers, numbers_text(group.layers));
  if (group.growth == "recurrent")
    return fmt::format("{}, {}, recurrent: {} per sequence", layers, group.dtype, size_text(group.bytes_per_sequence));
  const std::string size = group.value_head_dim == group.head_dim ? std::to_string(group.head_dim)
                                                                  : fmt::format("{} (values {})", group.head_dim, group.value_head_dim);
  return fmt::format("{}, {} KV head{} of {}, {}, {}: {} per token", layers, group.kv_heads, group.kv_heads == 1 ? "" : "s", size,
                     group.dtype, group.growth, size_text(group.bytes_per_token));
}

std::string or_none(const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "none"; }

std::string opset_text(const FileInfo& file) {
  std::vector<std::string> parts;
  for (const auto& [domain, version] : file.opsets)
    parts.push_back(domain == "ai.onnx" ? std::to_string(version) : fmt::format("{} {}", domain, version));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void files_section(const Inspection& inspection, Table& table) {
  table.title("Files");
  std::vector<std::vector<std::string>> rows;
  for (const FileInfo& file : inspection.files) {
    rows.push_back({file.path, file.role, fmt::format("opset {}", opset_text(file)), fmt::format("{} nodes", file.n_nodes),
                    size_text(file.weights_bytes), fmt::format("{} {}", file.producer, file.producer_version)});
  }
  table.rows(rows, {kCyan, kGreen, {}, {}, {}, kDim});
  for (const FileInfo& file : inspection.files) {
    if (!file.quantizes_across_rows) continue;
    table.line(fmt::format("{} quantizes activations with one scale per run, so its logits depend on the batch; native quantizes each row",
                           file.path));
  }
}

void ports_section(std::string_view title, const std::vector<PortInfo>& ports, Table& table) {
  table.title(title);
  std::vector<std::vector<std::string>> rows;
  for (const PortLine& line : port_lines(ports)) rows.push_back({line.name, line.dtype, line.shape, line.role});
  table.rows(rows, {kCyan, {}, kDim, kGreen});
}

void cache_section(const Inspection& inspection, Table& table) {
  if (inspection.cache.empty() && inspection.cross_cache.empty()) return;
  table.title("Cache");
  for (const CacheInfo& group : inspection.cache) table.line(group_text(group));
  for (const CacheInfo& group : inspection.cross_cache) table.line("cross attention: " + group_text(group));
}

std::string folder_name(const std::filesystem::path& folder) {
  std::error_code unreadable;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder, unreadable);
  return unreadable ? folder.string() : whole.filename().string();
}

std::string special_text(const SpecialTokenIds& special) {
  std::string text = fmt::format("bos {}, eos {}, pad {}", or_none(special.bos),
                                 special.eos.empty() ? "none" : fmt::format("{}", fmt::join(special.eos, " ")), or_none(special.pad));
  if (special.decoder_start) text += fmt::format(", decoder starts with {}", *special.decoder_start);
  if (special.forced_bos) text += fmt::format(", forced first {}", *special.forced_bos);
  if (special.forced_eos) text += fmt::format(", forced last {}", *special.forced_eos);
  return text;
}

}  // namespace

std::string size_text(int64_t n_bytes) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(n_bytes);
  size_t unit = 0;
  while (size >= 1000 && unit + 1 < std::size(kUnits)) size /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} bytes", n_bytes) : fmt::format("{:.{}f} {}", size, size < 10 ? 2 : 1, kUnits[unit]);
}

std::vector<PortLine> port_lines(const std::vector<PortInfo>& ports) {
  std::vector<PortRun> runs;
  for (const PortInfo& port : ports) {
    const CutName name = cut(port.name);
    const PortLine line{port.name, port.dtype, shape_text(port), port.role};
    // There are few different lines, however many layers there are.
    const auto alike = std::find_if(runs.begin(), runs.end(), [&](const PortRun& run) {
      return name.number >= 0 && run.name.number >= 0 && run.name.before == name.before && run.line.dtype == line.dtype &&
             run.line.shape == line.shape;
    });
    if (alike == runs.end()) {
      runs.push_back({name, {name.after}, {name.number}, line});
      continue;
    }
    if (std::find(alike->ends.begin(), alike->ends.end(), name.after) == alike->ends.end()) {
      alike->ends.push_back(name.after);
      alike->line.role += "/" + line.role;
    }
    if (std::find(alike->numbers.begin(), alike->numbers.end(), name.number) == alike->numbers.end()) alike->numbers.push_back(name.number);
  }
  std::vector<PortLine> lines;
  for (PortRun& run : runs) {
    if (run.numbers.size() > 1 || run.ends.size() > 1)
      run.line.name = fmt::format("{}{{{}}}{}", run.name.before, numbers_text(run.numbers), fmt::join(run.ends, "/"));
    lines.push_back(std::move(run.line));
  }
  return lines;
}

namespace {

template <class Count>
std::string counts_text(const std::map<std::string, Count>& counts) {
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} {}", count, name));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

void plan_section(const PlanInfo& plan, Table& table) {
  table.title("Plan of the " + plan.stage);
  if (!plan.refused.empty()) return table.line("none: " + plan.refused);
  table.line("ops: " + counts_text(plan.operations));
  table.line("fused: " + counts_text(plan.fused));
  table.line("on reference kernels: " + counts_text(plan.unfused));
  if (!plan.host_steps.empty()) table.line("left to the CPU by a GPU: " + counts_text(plan.host_steps));
  for (const auto& [pattern, count] : plan.attention) table.line(fmt::format("attention: {} x {}", count, pattern));
  std::vector<std::string> formats;
  for (const auto& [format, bytes] : plan.weights) formats.push_back(fmt::format("{} of {}", size_text(bytes), format));
  table.line(fmt::format("weights: {}; per token {} read and {} of cache kept", fmt::join(formats, ", "), size_text(plan.bytes_per_token),
                         size_text(plan.kv_bytes_per_token)));
  for (const std::string& note : plan.notes) table.line(note);
}

void embedding_section(const EmbeddingInfo& embedding, Table& table) {
  table.title("Embeddings");
  table.line(fmt::format("pooling {}, {}, at most {} tokens",
                         embedding.pooling.empty() ? "not given: choose with --pooling" : embedding.pooling,
                         embedding.normalize ? "normalized" : "not normalized",
                         embedding.max_tokens > 0 ? std::to_string(embedding.max_tokens) : "any number of"));
  if (!embedding.dense.empty()) table.line(fmt::format("dense layers: {}", fmt::join(embedding.dense, ", ")));
  if (!embedding.prompts.empty())
    table.line(fmt::format("prompts: {}; default {}", fmt::join(embedding.prompts, ", "),
                           embedding.default_prompt.empty() ? "none" : embedding.default_prompt));
  if (!embedding.problem.empty()) table.line(embedding.problem, kYellow);
}

}  // namespace

std::string inspection_table(const Inspection& inspection, bool color) {
  Table table(color);
  table.start(fmt::format("{}: {}, {} of weights\n", table.paint(escape_controls(folder_name(inspection.folder)), kBold),
                          table.paint(inspection.kind, kGreen), size_text(inspection.weights_bytes())));
  files_section(inspection, table);
  for (const FileInfo& file : inspection.files) {
    const std::string of = inspection.files.size() == 1 ? "" : " of " + file.path;
    ports_section("Inputs" + of, file.inputs, table);
    ports_section("Outputs" + of, file.outputs, table);
  }
  cache_section(inspection, table);
  table.title("Text");
  table.line(fmt::format("vocabulary {}, at most {} positions", or_none(inspection.vocab), or_none(inspection.max_positions)));
  table.line(special_text(inspection.special));
  if (inspection.embedding) embedding_section(*inspection.embedding, table);
  table.title("Backend");
  table.line(fmt::format("{}: {}", inspection.backend, inspection.backend_reason));
  for (const PlanInfo& plan : inspection.plans) plan_section(plan, table);
  if (!inspection.problems.empty()) {
    table.title("Problems");
    for (const std::string& problem : inspection.problems) table.line(problem, kYellow);
  }
  return table.take();
}

}  // namespace kvik::cli
