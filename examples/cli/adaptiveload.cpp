// The scheduler on the command line: fits step times, plans batch sizes, compares strategies and
// replays recorded runs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "commands.hpp"

namespace {

/// An error is one line, whatever the file that it quotes has in its fields.
int fail(std::string message, int code) {
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < ' '; }, ' ');
  std::cerr << "adaptiveload: " << message << '\n';
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Training steps of video diffusion transformers that leave no rank waiting.\n"
      "Files are CSV whose first line names the columns; examples/cli/README.md describes them.",
      "adaptiveload"};
  app.require_subcommand(1);
  adaptiveload::cli::add_fit(app);
  adaptiveload::cli::add_plan(app);
  adaptiveload::cli::add_compare(app);
  adaptiveload::cli::add_replay(app);
  try {
    app.parse(argc, argv);
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("standard output: cannot be written");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
  return 0;
}
