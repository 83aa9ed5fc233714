#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

/// Expects `call` to throw with a message that begins so.
template <class F>
void expect_invalid(F call, const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << message;
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, message.size()), message);
  }
}
