#pragma once

#include <string>
#include <vector>

/// A benchmark program: describes the GPU and the versions in the results' context, calls
/// `add_all`, runs what the arguments choose. Google Benchmark's options, and `--json FILE`. The
/// exit status; an error is one line.
int run_benchmarks(const std::string& program, std::vector<std::string> arguments,
                   void (*add_all)());
