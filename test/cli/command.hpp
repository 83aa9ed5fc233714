#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

/// What a command did.
struct result {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Runs commands in the project's folder, with a folder of the test's own for files.
class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(testing::TempDir()) /
             (std::string("adaptiveload-") + test.test_suite_name() + "." + test.name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  ~CommandLine() override { std::filesystem::remove_all(folder); }

  /// Writes a file of the test's and returns its name.
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }

  /// What a shell makes of a command line; "adaptiveload" is the command under test.
  result shell(const std::string& line) {
    const std::string out = (folder / "stdout").string();
    const std::string err = (folder / "stderr").string();
    const std::string command = "cd '" PROJECT_FOLDER "' && PATH='" COMMAND_FOLDER "':$PATH && { " +
                                line + "\n} > '" + out + "' 2> '" + err + "' < /dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }

  result adaptiveload(const std::string& arguments) { return shell("adaptiveload " + arguments); }

  std::filesystem::path folder;
};
