#pragma once

#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace adaptiveload {

/// A file that can't be read as it should; `what()` is "file:line:column: what is wrong".
struct csv_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads comma-separated values row by row in constant memory.
///
/// The first line names the columns, in any order. Fields may be quoted as in RFC 4180; lines may
/// end in CRLF; the file may begin with a byte order mark, and end with or without a newline. A row
/// that has not as many fields as the header, a blank line before the last row, and a stray or open
/// quote are errors.
///
///     csv_reader rows(stream, "steps.csv");
///     const auto time = rows.column("step_ms");
///     while (rows.next()) total += rows.number<double>(time);
class csv_reader {
 public:
  /// Reads the header. `name` is what errors call the file.
  csv_reader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {
    if (!next_record())
      throw csv_error(name_ + ":1:1: is empty; a header line must name the columns");
    for (const field& f : fields_) {
      const std::string column(trim(f.text));
      if (std::find(header_.begin(), header_.end(), column) != header_.end()) {
        fail(f.offset, "column \"" + column + "\" is named twice");
      }
      header_.push_back(column);
    }
  }

  /// The index of a column; throws naming the column and those that the file has.
  [[nodiscard]] std::size_t column(std::string_view name) const {
    if (const auto found = find_column(name)) return *found;
    std::string message = "no column \"" + std::string(name) + "\"; the columns are";
    for (const std::string& column : header_) message += " \"" + column + "\"";
    throw csv_error(name_ + ":1:1: " + message);
  }

  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header_.begin());
  }

  [[nodiscard]] const std::vector<std::string>& columns() const { return header_; }

  /// Moves to the next row; false at the end of the file.
  bool next() {
    if (!next_record()) return false;
    if (fields_.size() != header_.size()) {
      fail(0, "has " + std::to_string(fields_.size()) + " fields; the header names " +
                  std::to_string(header_.size()));
    }
    return true;
  }

  /// The 1-based line on which the current row begins.
  [[nodiscard]] std::size_t line() const { return line_; }

  /// A field of the current row, valid until the next one is read.
  [[nodiscard]] std::string_view text(std::size_t column) const { return fields_[column].text; }

  /// A field as a finite number; integers admit no fraction and no exponent.
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  [[nodiscard]] Number number(std::size_t column) const {
    const std::string_view text = trim(fields_[column].text);
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const char* kind = std::integral<Number> ? "a whole number" : "a number";
    if (error == std::errc::result_out_of_range) {
      reject(column, std::string("within the range of ") + kind);
    }
    if (error != std::errc{} || end != text.data() + text.size()) reject(column, kind);
    if constexpr (std::floating_point<Number>) {
      if (!std::isfinite(value)) reject(column, "a finite number");
    }
    return value;
  }

  /// As `number`, and above zero.
  template <class Number>
  [[nodiscard]] Number positive(std::size_t column) const {
    const Number value = number<Number>(column);
    if (!(value > 0)) reject(column, "above 0");
    return value;
  }

  /// The error that a field of the current row is not what it must be.
  [[nodiscard]] csv_error rejection(std::size_t column, const std::string& allowed) const {
    const field& f = fields_[column];
    return error_at(f.offset, header_[column] + " is \"" + std::string(f.text.substr(0, 80)) +
                                  "\"; allowed: " + allowed);
  }

  /// Throws it.
  [[noreturn]] void reject(std::size_t column, const std::string& allowed) const {
    throw rejection(column, allowed);
  }

 private:
  struct field {
    std::string_view text;
    std::size_t offset;  ///< in the record
  };

  static constexpr std::size_t block = std::size_t{1} << 16;
  static constexpr std::size_t longest_record = std::size_t{1} << 24;

  static std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
  }

  [[nodiscard]] csv_error error_at(std::size_t offset, const std::string& message) const {
    return csv_error(name_ + ":" + std::to_string(line_) + ":" + std::to_string(offset + 1) + ": " +
                     message);
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
    throw error_at(offset, message);
  }

  /// Reads the next record that is not blank into `record_` and splits it.
  bool next_record() {
    std::size_t blank_line = 0;
    do {
      if (!next_line()) return false;
      if (record_.empty() && blank_line == 0) blank_line = line_;
    } while (record_.empty());
    if (blank_line != 0) {
      line_ = blank_line;
      fail(0, "is blank; only the end of the file may be");
    }
    split();
    return true;
  }

  /// Takes one record, which holds line breaks where they stand in quotes, off the buffer.
  bool next_line() {
    std::size_t scanned = 0;
    std::size_t breaks = 0;
    bool quoted = false;
    line_ = next_line_;
    for (;;) {
      const char* begin = buffer_.data() + position_;
      const std::size_t size = end_ - position_;
      const char* newline = static_cast<const char*>(
          size > scanned ? std::memchr(begin + scanned, '\n', size - scanned) : nullptr);
      const std::size_t stop =
          newline != nullptr ? static_cast<std::size_t>(newline - begin) : size;
      quoted ^= std::count(begin + scanned, begin + stop, '"') % 2 != 0;
      scanned = stop;
      if (newline != nullptr) {
        ++breaks;
        ++scanned;
        if (quoted) continue;
      } else if (fill()) {
        continue;
      } else if (size == 0) {
        return false;
      } else if (quoted) {
        fail(0, "has a quote that is not closed");
      }
      record_ = {buffer_.data() + position_, stop};
      if (line_ == 1 && record_.starts_with("\xEF\xBB\xBF")) record_.remove_prefix(3);
      if (record_.ends_with('\r')) record_.remove_suffix(1);
      position_ += scanned;
      next_line_ += breaks;
      return true;
    }
  }

  /// Appends a block of the stream to what is left in the buffer; false at its end.
  bool fill() {
    if (end_ - position_ > longest_record) fail(0, "is longer than 16 MiB, or a quote is open");
    std::memmove(buffer_.data(), buffer_.data() + position_, end_ - position_);
    end_ -= position_;
    position_ = 0;
    if (buffer_.size() < end_ + block) buffer_.resize(end_ + block);
    in_.read(buffer_.data() + end_, static_cast<std::streamsize>(block));
    if (in_.bad()) fail(0, "could not be read");
    end_ += static_cast<std::size_t>(in_.gcount());
    return in_.gcount() > 0;
  }

  void split() {
    fields_.clear();
    if (std::memchr(record_.data(), '"', record_.size()) != nullptr) return split_quoted();
    std::size_t begin = 0;
    for (;;) {
      const std::size_t comma = record_.find(',', begin);
      fields_.push_back({record_.substr(begin, comma - begin), begin});
      if (comma == std::string_view::npos) return;
      begin = comma + 1;
    }
  }

  void split_quoted() {
    unquoted_.clear();
    unquoted_.reserve(record_.size());  // fields point into it
    std::size_t at = 0;
    for (;;) {
      const std::size_t begin = at;
      const std::size_t written = unquoted_.size();
      if (at < record_.size() && record_[at] == '"') {
        for (++at;; ++at) {
          if (at == record_.size()) fail(begin, "has a quote that is not closed");
          if (record_[at] == '"') {
            if (at + 1 == record_.size() || record_[at + 1] != '"') break;
            ++at;
          }
          unquoted_ += record_[at];
        }
        ++at;
        if (at < record_.size() && record_[at] != ',') fail(at, "text after a closing quote");
      } else {
        for (; at < record_.size() && record_[at] != ','; ++at) {
          if (record_[at] == '"') fail(at, "stray quote; a field with quotes must be quoted");
          unquoted_ += record_[at];
        }
      }
      fields_.push_back({std::string_view(unquoted_).substr(written), begin});
      if (at == record_.size()) return;
      ++at;
    }
  }

  std::istream& in_;
  std::string name_;
  std::vector<std::string> header_;
  std::vector<char> buffer_ = std::vector<char>(block);
  std::size_t position_ = 0;
  std::size_t end_ = 0;
  std::size_t line_ = 1;
  std::size_t next_line_ = 1;
  std::string_view record_;
  std::string unquoted_;
  std::vector<field> fields_;
};

}  // namespace adaptiveload
