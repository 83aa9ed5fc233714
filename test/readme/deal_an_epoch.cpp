#include <adaptiveload/schedule.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace al = adaptiveload;

namespace {

void train(const al::bucket&, const al::sample_ref&, double /*weight*/) {}

}  // namespace

int main() {
  const al::cost_model cost =
      al::fit_cost_model(al::read_measurements("data/wan2.1_1.3b_h200_steps.csv"));
  const std::int64_t my_rank = 3;

  std::vector<std::int64_t> lengths;
  al::sample_source samples;
  for (const auto& [shape, share] : al::read_shapes("data/wan_mix.csv")) {
    lengths.push_back(al::wan21.tokens(shape));
    samples.counts.push_back(std::llround(60'000 * share));
  }
  const al::epoch_options fsdp{.world_size = 8,
                               .micro_batches = 4,
                               .seed = 1,
                               .ranks_wait = al::ranks_wait::every_micro_batch};
  const al::bucket_plan plan =
      al::plan_buckets(lengths, std::vector{samples}, cost, {.max_tokens = 302'400, .epoch = fsdp});
  std::printf("%.2f times equal tokens: %s\n", plan.speedup, plan.reason.c_str());

  const al::epoch_plan epoch = al::plan_epoch(plan.buckets, samples.counts, plan.epoch);
  for (al::epoch_position at = epoch.start(); !epoch.finished(at);) {
    const al::training_step step = epoch.step(at);  // the same on every rank
    for (const al::micro_batch& m : step.rank(my_rank)) {
      for (std::int64_t i = 0; i < m.samples; ++i) {
        train(epoch.bucket_of(m), epoch.sample(m, i), m.weight);
      }
    }
    at = step.next;  // save it with a checkpoint; any world size resumes from it
  }
}
