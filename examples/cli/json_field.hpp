#pragma once

#include <adaptiveload/schedule/names.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptiveload::cli {

/// Parses JSON; throws `std::invalid_argument` with line and column where it is none.
inline nlohmann::json parse_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    throw std::invalid_argument(std::to_string(line) + ":" + std::to_string(column) +
                                ": is not JSON");
  } catch (const nlohmann::json::out_of_range&) {
    throw std::invalid_argument("has a number that is too large");
  }
}

/// A value of a JSON document and the way to it, as in "buckets[3].batch_size".
///
/// Its members throw `std::invalid_argument` that names the value and what is allowed.
class json_field {
 public:
  /// Keeps a reference to the value.
  json_field(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  /// A member of the object, if it has it.
  [[nodiscard]] std::optional<json_field> find(const std::string& key) const {
    if (!value_->is_object()) reject("an object");
    const auto found = value_->find(key);
    if (found == value_->end()) return std::nullopt;
    return json_field(*found, path_.empty() ? key : path_ + "." + key);
  }

  [[nodiscard]] json_field operator[](const std::string& key) const {
    const auto found = find(key);
    if (!found) reject("an object with \"" + key + "\"");
    return *found;
  }

  [[nodiscard]] std::vector<json_field> elements() const {
    if (!value_->is_array()) reject("an array");
    std::vector<json_field> fields;
    for (const nlohmann::json& each : *value_) {
      fields.emplace_back(each, path_ + "[" + std::to_string(fields.size()) + "]");
    }
    return fields;
  }

  [[nodiscard]] std::int64_t integer(
      std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const auto allowed = [&] {
      return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    };
    if (!value_->is_number_integer() || unsigned_beyond_int64()) reject(allowed());
    const auto value = value_->get<std::int64_t>();
    if (value < least || value > most) reject(allowed());
    return value;
  }

  [[nodiscard]] std::uint64_t unsigned_integer() const {
    if (!value_->is_number_unsigned()) reject("a whole number from 0 to 2^64 - 1");
    return value_->get<std::uint64_t>();
  }

  [[nodiscard]] double number(double least, double most = 1e300) const {
    const double value = value_->is_number() ? value_->get<double>() : std::nan("");
    if (!(value >= least && value <= most)) {
      std::ostringstream allowed;
      allowed << "a number from " << least << " to " << most;
      reject(allowed.str());
    }
    return value;
  }

  [[nodiscard]] double positive() const {
    if (number(0) == 0) reject("a number above 0");
    return number(0);
  }

  [[nodiscard]] bool boolean() const {
    if (!value_->is_boolean()) reject("true or false");
    return value_->get<bool>();
  }

  [[nodiscard]] std::string text() const {
    if (!value_->is_string()) reject("a string");
    return value_->get<std::string>();
  }

  /// The enumerator with that name.
  template <class Enum>
  [[nodiscard]] Enum one_of() const {
    try {
      return named<Enum>(text());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path_ + ": " + error.what());
    }
  }

  [[noreturn]] void reject(const std::string& allowed) const {
    const std::string value = value_->is_structured() ? std::string("an ") + value_->type_name()
                                                      : value_->dump().substr(0, 80);
    detail::throw_invalid(path_.empty() ? "the document" : path_, value, allowed);
  }

 private:
  [[nodiscard]] bool unsigned_beyond_int64() const {
    return value_->is_number_unsigned() &&
           value_->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  }

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace adaptiveload::cli
