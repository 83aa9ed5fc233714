#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace train_dit {

inline void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw std::runtime_error("cannot make the directory '" + path.string() +
                             "': " + error.message());
  }
}

/// What a file is called until it is whole.
inline std::filesystem::path partial(std::filesystem::path path) {
  return path += ".partial";
}

/// Writes a file whole or not at all.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(partial(path), std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error(partial(path).string() +
                             ": cannot be written: " + std::strerror(errno));
  }
  std::filesystem::rename(partial(path), path);
}

}  // namespace train_dit
