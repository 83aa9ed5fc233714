#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace adaptiveload::cli {

/// So many significant digits, without trailing zeros: what `%g` prints.
inline std::string general(double value, int digits) {
  std::ostringstream text;
  text << std::setprecision(digits) << value;
  return text.str();
}

inline std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
}

inline std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

/// A count as 302,400.
inline std::string grouped(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// Text as a field of a CSV file, quoted where it must be (RFC 4180).
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

/// Columns as wide as their widest cell.
class text_table {
 public:
  /// `alignment` has a letter for each column: l for left, r for right.
  text_table(std::string alignment, std::vector<std::string> header)
      : alignment_(std::move(alignment)), widths_(alignment_.size()) {
    add(std::move(header));
  }

  void add(std::vector<std::string> row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
    rows_.push_back(std::move(row));
  }

  friend std::ostream& operator<<(std::ostream& out, const text_table& table) {
    for (const std::vector<std::string>& row : table.rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(table.widths_[i] - row[i].size(), ' ');
        line += table.alignment_[i] == 'l' ? row[i] + space : space + row[i];
        line += "  ";
      }
      out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
    }
    return out;
  }

 private:
  std::string alignment_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace adaptiveload::cli
