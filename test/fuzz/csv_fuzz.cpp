// What the CSV readers make of any bytes: the rows that a plain reading of RFC 4180 gives, or an
// error that names file, line and column.
#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/recorded_run.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace al = adaptiveload;

namespace {

using table = std::vector<std::vector<std::string>>;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Lines, a line break within quotes being part of one; nothing where a quote is left open.
std::optional<std::vector<std::string>> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  bool quoted = false;
  for (const char c : text) {
    quoted ^= c == '"';
    if (c == '\n' && !quoted) {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// The fields of a line; nothing where a quote stands where none may.
std::optional<std::vector<std::string>> fields_of(const std::string& line) {
  enum { at_start, plain, quoted, closed } state = at_start;
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (state == quoted) {
      if (c == '"') {
        state = closed;
      } else {
        fields.back() += c;
      }
    } else if (c == ',') {
      fields.emplace_back();
      state = at_start;
    } else if (c == '"') {
      if (state == plain) return std::nullopt;
      if (state == closed) fields.back() += c;
      state = quoted;
    } else {
      if (state == closed) return std::nullopt;
      fields.back() += c;
      state = plain;
    }
  }
  return fields;
}

std::optional<table> expected(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto lines = lines_of(text);
  if (!lines || lines->empty()) return std::nullopt;
  table rows;
  for (const std::string& line : *lines) {
    auto fields = fields_of(line);
    if (line.empty() || !fields) return std::nullopt;
    if (!rows.empty() && fields->size() != rows.front().size()) return std::nullopt;
    rows.push_back(*fields);
  }
  for (std::string& name : rows.front()) name = trimmed(name);
  const std::set<std::string> names(rows.front().begin(), rows.front().end());
  if (names.size() != rows.front().size()) return std::nullopt;
  return rows;
}

/// What `read` makes of the text; nothing where it says why not, and where.
template <class Read>
auto result_of(const std::string& text, Read read)
    -> std::optional<decltype(read(std::declval<std::istream&>()))> {
  std::istringstream in(text);
  try {
    return read(in);
  } catch (const al::csv_error& error) {
    int line = 0;
    int column = 0;
    int end = 0;
    std::sscanf(error.what(), "fuzz:%d:%d: %n", &line, &column, &end);
    check(line >= 1 && column >= 1 && end > 0, "an error says where");
    return std::nullopt;
  }
}

table read_table(std::istream& in) {
  al::csv_reader reader(in, "fuzz");
  table rows{reader.columns()};
  while (reader.next()) {
    rows.emplace_back();
    for (std::size_t i = 0; i < rows.front().size(); ++i) rows.back().emplace_back(reader.text(i));
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(result_of(text, read_table) == expected(text), "rows are those of RFC 4180");

  const auto steps =
      result_of(text, [](std::istream& in) { return al::read_measured_steps(in, "fuzz"); });
  if (steps) al::detail::check_measurements(steps->measurements);
  result_of(text, [](std::istream& in) { return al::read_recorded_plans(in, "fuzz").size(); });
  result_of(text, [](std::istream& in) { return al::read_recorded_runs(in, "fuzz").size(); });
  const auto shapes = result_of(text, [](std::istream& in) { return al::read_shapes(in, "fuzz"); });
  const auto samples = result_of(text, [](std::istream& in) {
    std::vector<al::video_shape> all;
    al::read_manifest(in, "fuzz", [&](const al::video_shape& shape) { all.push_back(shape); });
    return all;
  });
  if (shapes) {
    check(samples && samples->size() == shapes->size(), "shapes are a manifest");
    for (std::size_t i = 0; i < shapes->size(); ++i) {
      check((*shapes)[i].shape == (*samples)[i], "shapes are a manifest");
    }
  }
  return 0;
}
