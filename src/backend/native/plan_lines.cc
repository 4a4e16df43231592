#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/native/execute/cpu/attend_layouts.h"
#include "backend/native/report.h"

// A plan as text: one line per table, then one per op.
namespace kvik::native {
namespace {

class PlanText {
 public:
  PlanText(const Plan& plan, WeightChoice choice, cpu::KvFormat kv)
      : plan_(plan), chosen_(choose_weights(plan, choice)), layout_(cache_layout(plan, kv)) {}

  std::vector<std::string> lines() {
    for (size_t i = 0; i < plan_.tables.size(); ++i) lines_.push_back(table_line(i));
    const Op* before = nullptr;
    for (const Op& op : plan_.ops) {
      if (before == nullptr || before->section != op.section) lines_.push_back(section_line(op.section));
      lines_.push_back(op_line(op));
      before = &op;
    }
    lines_.push_back(fmt::format("output {}", input_text(plan_.output)));
    return std::move(lines_);
  }

 private:
  static std::string section_line(Op::Section section) {
    static constexpr std::array<const char*, 3> kSections = {"source: once per position of the source", "body: for every row",
                                                             "tail: for rows that want logits"};
    return kSections[static_cast<size_t>(section)];
  }

  std::string table_line(size_t i) const {
    const PlanTable& table = plan_.tables[i];
    std::string line = fmt::format("t{} = {}[{}] by position", i, dtype_name(table.dtype), table.size);
    if (table.recipe != nullptr) line += fmt::format(", computed by {} nodes", table.recipe->graph->graph().nodes.size());
    if (table.lookup.defined()) line += fmt::format(", out of {} rows", table.lookup.dim(0));
    if (table.limit > 0) line += fmt::format(", up to {} positions", table.limit);
    return fmt::format("{}  # {}", line, table.name);
  }

  std::string input_text(const Input& input) const {
    if (!input) return "-";
    const char kind = input.is_value() ? '%' : input.is_constant() ? 'c' : 't';
    const auto at = static_cast<size_t>(input.index);
    const int64_t whole = input.is_value()      ? plan_.values[at].size
                          : input.is_constant() ? plan_.constants[at].size()
                                                : plan_.tables[at].size;
    if (input.offset == 0 && input.size == whole) return fmt::format("{}{}", kind, input.index);
    return fmt::format("{}{}[{}:{}]", kind, input.index, input.offset, input.offset + input.size);
  }

  std::string op_line(const Op& op) const {
    std::vector<std::string> made, read;
    std::string name;
    for (const ValueIndex value : op.out) {
      if (value == kNoIndex) continue;
      made.push_back(fmt::format("%{} {}[{}]", value, dtype_name(plan_.value(value).dtype), plan_.value(value).size));
      if (name.empty()) name = plan_.value(value).name;
    }
    for (const Input& input : op.in) read.push_back(input_text(input));
    std::string line = made.empty() ? "" : fmt::format("{} = ", fmt::join(made, ", "));
    line += fmt::format("{}({})", op.kind(), fmt::join(read, ", "));
    line += std::visit([this](const auto& args) { return details(args); }, op.args);
    if (op.as<ReferenceOp>() != nullptr) line += fmt::format(" {}", plan_.node(op).op);
    if (op.selection != kNoIndex) line += fmt::format(" if %{}", op.selection);
    if (!op.fused_by.empty()) line += fmt::format(" <{}>", op.fused_by);
    return name.empty() ? line : fmt::format("{}  # {}", line, name);
  }

  std::string weight_text(int i) const {
    const ChosenWeight& chosen = chosen_[static_cast<size_t>(i)];
    const PlanWeight& weight = plan_.weights[static_cast<size_t>(i)];
    return fmt::format(" w{} {} x {} {} {} bytes", i, weight.k, weight.n, format_name(chosen), chosen.size_bytes);
  }

  template <class Args>
  std::string details(const Args&) const {
    return "";
  }
  std::string details(const Embed& args) const { return weight_text(args.weight); }
  std::string details(const Matmul& args) const {
    const std::string first = weight_text(args.weights.front());
    return args.weights.size() == 1 ? first : fmt::format("{} and {} more", first, args.weights.size() - 1);
  }
  std::string details(const NormOp& args) const {
    return fmt::format(" {} epsilon {:g} groups {}", args.centered ? "layer" : "rms", args.epsilon, args.groups);
  }
  std::string details(const SkipNormOp& args) const { return details(args.norm); }
  std::string details(const RotaryOp& args) const {
    return fmt::format(" {} heads of {}, {} pairs{}", args.n_heads, args.head_dim, args.n_pairs, args.interleaved ? ", interleaved" : "");
  }
  std::string details(const Move& args) const { return fmt::format(" {} runs", args.runs.size()); }
  std::string details(const ClipOp& args) const { return fmt::format(" {:g} to {:g}", args.low, args.high); }
  std::string details(const AppendOp& args) const {
    const int64_t bytes = layout_.of_attend[static_cast<size_t>(args.attend)].layout.page_bytes / cpu::kPagePositions;
    return fmt::format(" to attention {}, {} bytes per token", args.attend, bytes);
  }
  std::string details(const AttendOp& args) const {
    const AttentionSpec& a = plan_.attends[static_cast<size_t>(args.attend)];
    return fmt::format(" attention {}: {} heads on {} of {} and {}, {}, scale {:g}", args.attend, a.n_heads, a.n_kv_heads, a.key_dim,
                       a.value_dim, a.words, a.scale);
  }

  const Plan& plan_;
  std::vector<ChosenWeight> chosen_;
  AttendLayouts layout_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> plan_lines(const Plan& plan, WeightChoice choice, cpu::KvFormat kv) { return PlanText(plan, choice, kv).lines(); }

}  // namespace kvik::native
