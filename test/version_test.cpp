#include <adaptiveload/support/version.hpp>
#include <gtest/gtest.h>

#include <string>

namespace al = adaptiveload;

TEST(version, is_the_version_of_the_cmake_package) {
  EXPECT_EQ(std::to_string(al::version_major) + "." + std::to_string(al::version_minor) + "." +
                std::to_string(al::version_patch),
            PROJECT_VERSION);
}
