// What the plan reader makes of any bytes: a plan that comes back from the file it is written to
// and whose first step can be run, or an error that says why not.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "plan_json.hpp"

namespace cli = adaptiveload::cli;

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cli::corpus_plan planned;
  try {
    planned = cli::plan_from_json({reinterpret_cast<const char*>(data), size});
  } catch (const std::invalid_argument&) {
    return 0;
  }
  const auto written = cli::to_json(planned);
  check(cli::to_json(cli::plan_from_json(written.dump())) == written, "a plan comes back");

  const adaptiveload::epoch_options& options = planned.plan.epoch;
  constexpr std::int64_t most = 4096;  // micro-batches drawn at once: memory
  if (options.world_size > most || options.micro_batches > most / options.world_size ||
      options.lookahead > most / (options.world_size * options.micro_batches) ||
      options.step_ms > 0) {
    return 0;
  }
  const adaptiveload::epoch_plan epoch = planned.epoch();
  if (epoch.finished(epoch.start())) return 0;
  const adaptiveload::training_step step = epoch.step(epoch.start());
  check(step.world_size() == options.world_size, "a step has micro-batches for every rank");
  check(step.samples >= 1, "a step has samples");
  return 0;
}
