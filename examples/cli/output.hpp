#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace adaptiveload::cli {

/// Writes a file whole or not at all. Throws `std::runtime_error` that names it and says why not.
inline void write_file(std::filesystem::path path, const std::string& text) {
  namespace fs = std::filesystem;
  const auto fail = [&path](const std::string& why) {
    throw std::runtime_error(path.string() + ": cannot be written: " + why);
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail("is a directory");
  fs::path written = path;  // A pipe or a device is no file to be replaced.
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    if (fs::exists(status)) path = fs::canonical(path);  // what a link names, not the link
    written = path;
    written += "." + std::to_string(::getpid()) + ".partial";
  }
  errno = 0;
  std::ofstream out(written, std::ios::binary);
  const bool opened = out.is_open();
  out << text;
  out.close();
  const std::string why = std::strerror(errno);
  if (out && written != path) fs::rename(written, path, error);
  if (out && !error) return;
  if (opened && written != path) {
    std::error_code ignored;
    fs::remove(written, ignored);
  }
  fail(out ? error.message() : why);
}

}  // namespace adaptiveload::cli
