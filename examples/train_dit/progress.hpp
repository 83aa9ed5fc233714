#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace train_dit {

/// Says on stderr how far a part of the work is, how fast, and how long it will still take: a bar
/// on a terminal, a line every tenth elsewhere.
class progress {
 public:
  progress(std::string what, std::string unit)
      : what_(std::move(what)), unit_(std::move(unit)), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~progress() {
    if (terminal_) std::fputc('\n', stderr);
  }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// `done` is the share of the work, 0 to 1; `count` how many units that is.
  void show(double done, double count, const std::string& note = "") {
    const double elapsed = seconds(clock::now() - begin_);
    if (terminal_) {
      if (done < 1 && elapsed < next_) return;
      next_ = elapsed + 0.1;
    } else {
      if (done < next_) return;
      next_ = std::floor(10 * done + 1e-9) / 10 + 0.1;
    }
    constexpr int width = 30;
    const int filled = static_cast<int>(width * std::clamp(done, 0.0, 1.0));
    const std::string bar = '[' + std::string(static_cast<std::size_t>(filled), '=') +
                            std::string(static_cast<std::size_t>(width - filled), ' ') + "] ";
    std::fprintf(stderr, "%s%-10s %s%3.0f %%  %.0f %s, %.1f/s%s  %s%s", terminal_ ? "\r" : "",
                 what_.c_str(), terminal_ ? bar.c_str() : "", 100 * done, count, unit_.c_str(),
                 elapsed > 0 ? count / elapsed : 0.0, left(done, elapsed).c_str(), note.c_str(),
                 terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;
  static double seconds(clock::duration d) { return std::chrono::duration<double>(d).count(); }

  static std::string left(double done, double elapsed) {
    if (done < 0.02 || done >= 1) return "";  // so early it would be a guess
    const long seconds_left = std::lround(elapsed * (1 - done) / done);
    char text[48];
    std::snprintf(text, sizeof text, "  %ld:%02ld left", seconds_left / 60, seconds_left % 60);
    return text;
  }

  std::string what_, unit_;
  bool terminal_;
  clock::time_point begin_ = clock::now();
  double next_ = 0;  // when to speak again: in seconds on a terminal, elsewhere as a share
};

}  // namespace train_dit
