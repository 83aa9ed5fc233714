#include "clocks.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace simt {
namespace {

void join(tick* into, const tick* from, std::size_t agents) {
  for (std::size_t i = 0; i < agents; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

clocks::clocks(int threads)
    : threads_(threads),
      agents_(static_cast<std::size_t>(threads + transfer_agents)),
      now_(next_epoch()),
      block_begin_(now_),
      row_epoch_(static_cast<std::size_t>(threads)),
      rows_(static_cast<std::size_t>(threads) * agents_) {}

epoch clocks::next_epoch() {
  static epoch last = 1;
  return ++last;
}

tick* clocks::row(int thread) {
  const auto t = static_cast<std::size_t>(thread);
  tick* const begin = rows_.data() + t * agents_;
  if (row_epoch_[t] != now_) {
    row_epoch_[t] = now_;
    std::fill_n(begin, agents_, tick{0});
    begin[t] = 1;
  }
  return begin;
}

void clocks::advance(int thread) {
  tick& own = row(thread)[static_cast<std::size_t>(thread)];
  if (own == std::numeric_limits<tick>::max()) {
    throw std::length_error("simt: a thread meets others 65,535 times between block barriers");
  }
  ++own;
}

tick* clocks::seen_now(moment& barrier) {
  if (barrier.at != now_) barrier = {now_, std::vector<tick>(agents_)};
  return barrier.seen.data();
}

void clocks::meet(const std::vector<int>& threads) {
  std::vector<tick> joined(agents_);
  for (const int thread : threads) join(joined.data(), row(thread), agents_);
  for (const int thread : threads) {
    std::copy(joined.begin(), joined.end(), row(thread));
    advance(thread);
  }
}

void clocks::release(int thread, moment& barrier) {
  join(seen_now(barrier), row(thread), agents_);
  advance(thread);
}

void clocks::release(int agent, tick then, moment& barrier) {
  seen_now(barrier)[agent] = then;
}

void clocks::acquire(int thread, const moment& barrier) {
  if (barrier.at == now_) join(row(thread), barrier.seen.data(), agents_);
}

}  // namespace simt
