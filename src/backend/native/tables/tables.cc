#include "backend/native/tables/tables.h"

#include <fmt/format.h>

#include "backend/native/probe/constant_row.h"
#include "backend/native/tables/position_table.h"

namespace kvik::native {
namespace {

class TableMaker {
 public:
  TableMaker(CompileState& state, Emitter& emitter) : state_(state), emitter_(emitter) {}

  Expected<Operand> resolve(const Emitter::Auxiliary& auxiliary) {
    const std::string_view name = state_.flat->graph.name_of(auxiliary.value);
    const bool has_positions = holds(auxiliary.axes, Symbol::kNew) || holds(auxiliary.axes, Symbol::kTotal);
    if (!has_positions) {
      KVIK_TRY(std::optional<Tensor> row, constant_row(state_, auxiliary.value, auxiliary.axes));
      if (row) return emitter_.constant(std::move(*row), name);
      if (!state_.labels.one_token) return refuse(fmt::format("'{}' has no axis of positions but varies with the sizes", name));
    }
    Program& program = emitter_.program();
    if (program.labels == nullptr) program.labels = std::make_shared<Labels>(state_.labels);
    KVIK_TRY(PositionTable table, make_table(state_, auxiliary.value, auxiliary.axes));
    program.tables.push_back(std::move(table));
    if (const int64_t limit = program.tables.back().limit; limit > 0)
      program.max_positions = std::min(program.max_positions.value_or(limit), limit);
    return Operand{Operand::Kind::kTable, static_cast<int32_t>(program.tables.size() - 1)};
  }

 private:
  CompileState& state_;
  Emitter& emitter_;
};

}  // namespace

Outcome<Program> make_tables(CompileState& state, Emitter emitter) {
  KVIK_CHECK(emitter.close());
  TableMaker maker(state, emitter);
  KVIK_CHECK(emitter.resolve([&](const Emitter::Auxiliary& auxiliary) { return maker.resolve(auxiliary); }));
  return emitter.finish();
}

}  // namespace kvik::native
