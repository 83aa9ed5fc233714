#pragma once

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/csv_reader.hpp>
#include <adaptiveload/schedule/deal.hpp>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A micro-batch that a rank of a real run ran: the `position`-th of its step.
struct recorded_micro_batch {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::int64_t position = 0;
  std::int64_t batch_size = 0;
  std::int64_t sequence_length = 0;  ///< tokens per sample

  friend constexpr bool operator==(const recorded_micro_batch&,
                                   const recorded_micro_batch&) = default;
};

/// A real run: where its ranks waited and how long all its steps took.
struct recorded_run {
  std::string name;
  adaptiveload::ranks_wait ranks_wait = adaptiveload::ranks_wait::every_step;
  double epoch_ms = 0;
};

/// Reads what ranks ran, by the name of the run: columns `run`, `step`, `rank`, `position`,
/// `batch_size` and `sequence_length`. Throws `csv_error` as `read_measurements` does, for a
/// position of a rank that came before, and for one whose predecessor is nowhere in the file.
[[nodiscard]] inline std::map<std::string, std::vector<recorded_micro_batch>> read_recorded_plans(
    std::istream& in, const std::string& name) {
  csv_reader rows(in, name);
  const auto run = rows.column("run");
  const auto step = rows.column("step");
  const auto rank = rows.column("rank");
  const auto position = rows.column("position");
  const auto batch_size = rows.column("batch_size");
  const auto sequence_length = rows.column("sequence_length");
  const auto index = [&rows](std::size_t column) {
    const auto value = rows.number<std::int64_t>(column);
    if (value < 0) rows.reject(column, "0 or more");
    return value;
  };
  std::map<std::string, std::vector<recorded_micro_batch>> plans;
  using place = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
  std::set<place> taken;
  std::vector<std::pair<place, csv_error>> early;  // what must come before, and what if it does not
  while (rows.next()) {
    const recorded_micro_batch m{.step = index(step),
                                 .rank = index(rank),
                                 .position = index(position),
                                 .batch_size = rows.positive<std::int64_t>(batch_size),
                                 .sequence_length = rows.positive<std::int64_t>(sequence_length)};
    if (m.rank >= 1 << 20) rows.reject(rank, "below 2^20");
    if (m.batch_size > INT64_MAX / m.sequence_length) {
      rows.reject(batch_size, "fewer than 2^63 tokens");
    }
    const std::string of_run(rows.text(run));
    if (!taken.emplace(of_run, m.step, m.rank, m.position).second) {
      rows.reject(position, "each position of a rank in a step once");
    }
    const place before{of_run, m.step, m.rank, m.position - 1};
    if (m.position > 0 && !taken.contains(before)) {
      early.emplace_back(before, rows.rejection(position, "positions from 0 up, none left out"));
    }
    plans[of_run].push_back(m);
  }
  for (const auto& [before, error] : early) {
    if (!taken.contains(before)) throw error;
  }
  return plans;
}

/// Reads runs: columns `run`, `ranks_wait` ("every step" or "every micro-batch") and `epoch_ms`.
/// Throws `csv_error` as `read_measurements` does.
[[nodiscard]] inline std::vector<recorded_run> read_recorded_runs(std::istream& in,
                                                                  const std::string& name) {
  csv_reader rows(in, name);
  const auto run = rows.column("run");
  const auto wait = rows.column("ranks_wait");
  const auto epoch_ms = rows.column("epoch_ms");
  std::vector<recorded_run> runs;
  while (rows.next()) {
    const std::string_view where = rows.text(wait);
    if (where != "every step" && where != "every micro-batch") {
      rows.reject(wait, "\"every step\" or \"every micro-batch\"");
    }
    runs.push_back({std::string(rows.text(run)),
                    where == "every step" ? ranks_wait::every_step : ranks_wait::every_micro_batch,
                    rows.positive<double>(epoch_ms)});
  }
  return runs;
}

/// The same from a file.
[[nodiscard]] inline std::map<std::string, std::vector<recorded_micro_batch>> read_recorded_plans(
    const std::filesystem::path& path) {
  std::ifstream in = detail::open_csv(path);
  return read_recorded_plans(in, path.string());
}

/// The same from a file.
[[nodiscard]] inline std::vector<recorded_run> read_recorded_runs(
    const std::filesystem::path& path) {
  std::ifstream in = detail::open_csv(path);
  return read_recorded_runs(in, path.string());
}

}  // namespace adaptiveload
