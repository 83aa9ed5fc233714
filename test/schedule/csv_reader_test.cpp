#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <adaptiveload/schedule/csv_reader.hpp>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

using table = std::vector<std::vector<std::string>>;

table read(const std::string& text) {
  std::istringstream in(text);
  al::csv_reader rows(in, "t.csv");
  table fields{rows.columns()};
  while (rows.next()) {
    fields.emplace_back();
    for (std::size_t i = 0; i < rows.columns().size(); ++i) {
      fields.back().emplace_back(rows.text(i));
    }
  }
  return fields;
}

template <class Read>
std::string error_of(const std::string& text, Read read_row) {
  std::istringstream in(text);
  try {
    al::csv_reader rows(in, "t.csv");
    while (rows.next()) read_row(rows);
  } catch (const al::csv_error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const std::string& text) {
  return error_of(text, [](const al::csv_reader&) {});
}

TEST(CsvReader, LineEndingsAndTheLastNewlineDoNotMatter) {
  const table expected{{"a", "b"}, {"1", "2"}, {"3", ""}};
  EXPECT_EQ(read("a,b\n1,2\n3,\n"), expected);
  EXPECT_EQ(read("a,b\n1,2\n3,"), expected);
  EXPECT_EQ(read("a,b\r\n1,2\r\n3,\r\n"), expected);
  EXPECT_EQ(read("a,b\n1,2\n3,\n\n\r\n\n"), expected);
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a , b\n1,2\n3,"),
            expected);
}

TEST(CsvReader, AByteOrderMarkIsNotPartOfTheFirstName) {
  const table expected{{"a", "b"}, {"1", "2"}};
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a,b\n1,2\n"),
            expected);
  EXPECT_EQ(read("\xEF\xBB\xBF\"a\",\"b\"\n1,2\n"), expected);
  EXPECT_EQ(error_of("\xEF\xBB\xBF\n"), "t.csv:1:1: is empty; a header line must name the columns");
}

TEST(CsvReader, QuotedFieldsHoldCommasQuotesAndLineBreaks) {
  EXPECT_EQ(read("name,\"the, caption\"\n\"\",\"a \"\"b\"\",\n c\"\nx,y\n"),
            (table{{"name", "the, caption"}, {"", "a \"b\",\n c"}, {"x", "y"}}));
}

TEST(CsvReader, LinesAreCountedAcrossQuotedLineBreaks) {
  EXPECT_EQ(error_of("a,b\n1,\"\n\n\"\n2\n"), "t.csv:5:1: has 1 fields; the header names 2");
}

TEST(CsvReader, ErrorsNameFileLineAndColumn) {
  EXPECT_EQ(error_of(""), "t.csv:1:1: is empty; a header line must name the columns");
  EXPECT_EQ(error_of("a,b,a\n"), "t.csv:1:5: column \"a\" is named twice");
  EXPECT_EQ(error_of("a,b\n1,2\n1,2,3\n"), "t.csv:3:1: has 3 fields; the header names 2");
  EXPECT_EQ(error_of("a,b\n1,2\n\n3,4\n"), "t.csv:3:1: is blank; only the end of the file may be");
  EXPECT_EQ(error_of("a,b\n1,\"2\n"), "t.csv:2:1: has a quote that is not closed");
  EXPECT_EQ(error_of("a,b\n1,x\"2\"\n"),
            "t.csv:2:4: stray quote; a field with quotes must be quoted");
  EXPECT_EQ(error_of("a,b\n\"1\"x,2\n"), "t.csv:2:4: text after a closing quote");
  EXPECT_EQ(error_of("a,b\n1,2\n", [](const al::csv_reader& r) { (void)r.column("c"); }),
            "t.csv:1:1: no column \"c\"; the columns are \"a\" \"b\"");
}

TEST(CsvReader, NumbersAreWholeFields) {
  const auto integer = [](const al::csv_reader& r) { (void)r.number<std::int64_t>(1); };
  EXPECT_EQ(error_of("a,b\n1, 12 \n", integer), "no error");
  EXPECT_EQ(error_of("a,b\n1,12x\n", integer), "t.csv:2:3: b is \"12x\"; allowed: a whole number");
  for (const char* text : {"", " ", "1.0", "1e3", "0x10", "+1", "--1", "1 2"}) {
    EXPECT_NE(error_of(std::string("a,b\n1,") + text + "\n", integer), "no error") << text;
  }
  EXPECT_EQ(error_of("a,b\n1,9223372036854775808\n", integer),
            "t.csv:2:3: b is \"9223372036854775808\"; allowed: within the range of a whole number");

  const auto real = [](const al::csv_reader& r) { (void)r.number<double>(0); };
  EXPECT_EQ(error_of("a\n-1.5e-3\n", real), "no error");
  for (const char* text : {"nan", "inf", "-inf", "1e999", "1,5", "x"}) {
    EXPECT_NE(error_of(std::string("a\n") + text + "\n", real), "no error") << text;
  }
  const auto positive = [](const al::csv_reader& r) { (void)r.positive<double>(0); };
  EXPECT_EQ(error_of("a\n0\n", positive), "t.csv:2:1: a is \"0\"; allowed: above 0");
}

TEST(CsvReader, ALineMayBeLongButNotEndless) {
  const std::string long_field(3 << 20, 'x');
  EXPECT_EQ(read("a,b\n" + long_field + ",1\n2,3\n"),
            (table{{"a", "b"}, {long_field, "1"}, {"2", "3"}}));
  EXPECT_EQ(error_of("a,b\n" + std::string(20 << 20, 'x')),
            "t.csv:2:1: is longer than 16 MiB, or a quote is open");
}

std::string quoted(const std::string& field) {
  std::string text = "\"";
  for (const char c : field) text.append(c == '"' ? 2 : 1, c);
  text += '"';
  return text;
}

RC_GTEST_PROP(CsvReader, AnythingQuotedComesBack, ()) {
  const auto width = *rc::gen::inRange<std::size_t>(2, 5);
  const auto height = *rc::gen::inRange<std::size_t>(0, 20);
  const auto cell =
      rc::gen::container<std::string>(rc::gen::element('a', ',', '"', '\n', '\r', ' '));
  table expected{{}};
  for (std::size_t i = 0; i < width; ++i) expected[0].push_back(std::to_string(i));
  for (std::size_t row = 0; row < height; ++row) {
    expected.push_back(*rc::gen::container<std::vector<std::string>>(width, cell));
  }
  std::string text;
  for (const auto& row : expected) {
    for (std::size_t i = 0; i < width; ++i) {
      if (i > 0) text += ',';
      text += quoted(row[i]);
    }
    text += *rc::gen::element<std::string>("\n", "\r\n");
  }
  RC_ASSERT(read(text) == expected);
}

RC_GTEST_PROP(CsvReader, AnyTextIsReadOrRefused, (const std::vector<std::uint8_t>& bytes)) {
  const auto symbols = *rc::gen::container<std::string>(
      rc::gen::element('1', ',', '"', '\n', '\r', '.', '-', 'e', '\0'));
  for (const std::string& text : {std::string(bytes.begin(), bytes.end()), "a,b\n" + symbols}) {
    try {
      read(text);
    } catch (const al::csv_error&) {
    }
  }
}

}  // namespace
