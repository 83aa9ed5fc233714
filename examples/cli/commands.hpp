#pragma once

#include <CLI/CLI.hpp>

namespace adaptiveload::cli {

/// Each adds a subcommand, which runs while the command line is parsed and throws what is wrong.
void add_fit(CLI::App& app);
void add_plan(CLI::App& app);
void add_compare(CLI::App& app);
void add_replay(CLI::App& app);

}  // namespace adaptiveload::cli
