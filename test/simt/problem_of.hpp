#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/support/launch.cuh>
#include <simt/executor.hpp>
#include <string>

/// What the executor says about a launch of `kernel` with `threads` threads a block; "" if nothing.
template <class... Parameters, class... Arguments>
std::string problem_of(void (*kernel)(Parameters...), int blocks, unsigned threads,
                       std::size_t shared_bytes, Arguments... arguments) {
  try {
    adaptiveload::device::launch("kernel", kernel, blocks, dim3(threads), shared_bytes, nullptr,
                                 arguments...);
  } catch (const simt::error& problem) {
    return problem.what();
  }
  return "";
}

/// Expects `text` to hold `part`.
inline void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "says \"" << text << "\", lacks \"" << part << "\"";
}
