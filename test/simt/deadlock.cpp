#include <cstring>
#include <map>

#include "block.hpp"

namespace simt {
namespace {

std::string mask_text(unsigned mask) {
  std::vector<int> lanes;
  for (int lane = 0; lane < warp_size; ++lane) {
    if ((mask >> lane & 1) != 0) lanes.push_back(lane);
  }
  return ranks_text(lanes);
}

/// What a thread waits for, in words; threads with equal words wait for one thing.
std::string state_text(const block& b, const thread& t) {
  if (t.state == waiting::exited) return "ended";
  std::string text = std::string("wait in ") + t.operation;
  if (t.state == waiting::at_barrier && t.barrier != 0) {
    const int threads = b.barriers[static_cast<std::size_t>(t.barrier)].threads;
    text.append(" ").append(std::to_string(t.barrier));
    text.append(" of ").append(std::to_string(threads)).append(" threads");
  }
  if (t.state == waiting::in_warp) text += " for lanes " + mask_text(t.mask);
  return text + " (" + place_text(t.place) + ")";
}

}  // namespace

std::string place_text(where place) {
  const char* const slash = std::strrchr(place.file_name(), '/');
  return std::string(slash == nullptr ? place.file_name() : slash + 1) + ":" +
         std::to_string(place.line());
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text.append("-").append(std::to_string(ranks[end - 1]));
    i = end;
  }
  return text;
}

std::string explain_deadlock(block& b) {
  std::map<std::string, std::vector<int>> groups;
  for (int rank = 0; rank < b.size(); ++rank) {
    groups[state_text(b, b.at(rank))].push_back(rank);
  }
  std::string text = "no thread can go on: ";
  const char* separator = "";
  for (const auto& [state, ranks] : groups) {
    text += std::string(separator) + (ranks.size() == 1 ? "thread " : "threads ") +
            ranks_text(ranks) + " " + state;
    separator = "; ";
  }
  return text;
}

}  // namespace simt
