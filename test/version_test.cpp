#include <gtest/gtest.h>

#include <adaptiveload/support/version.hpp>
#include <string>

namespace al = adaptiveload;

TEST(Version, IsThatOfTheCMakePackage) {
  EXPECT_EQ(std::to_string(al::version_major) + "." + std::to_string(al::version_minor) + "." +
                std::to_string(al::version_patch),
            PROJECT_VERSION);
}
