#include <adaptiveload/schedule.hpp>

int main() {
  return adaptiveload::batch_size(32'760, {.max_tokens = 302'400}) == 9 ? 0 : 1;
}
