#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <simt/executor.hpp>
#include <sstream>
#include <string>

namespace simt {
namespace {

std::string name_of(const void* kernel) {
  Dl_info symbol;
  if (dladdr(kernel, &symbol) == 0 || symbol.dli_saddr != kernel) return "";
  char* const demangled = abi::__cxa_demangle(symbol.dli_sname, nullptr, nullptr, nullptr);
  std::string name = demangled == nullptr ? symbol.dli_sname : demangled;
  std::free(demangled);
  return name;
}

/// The kernels that have run; in the end it adds them to the executable's file of them.
class executed_kernels {
 public:
  std::set<const void*> kernels;

  ~executed_kernels() {
    const std::string file = std::filesystem::read_symlink("/proc/self/exe").string() + ".kernels";
    std::set<std::string> known;
    std::ifstream before(file);
    for (std::string name; std::getline(before, name);) known.insert(name);

    std::ostringstream names;
    for (const void* kernel : kernels) {
      const std::string name = name_of(kernel);
      if (!name.empty() && known.insert(name).second) names << name << '\n';
    }
    // In one write: other processes may add to the file, too.
    if (!names.str().empty()) std::ofstream(file, std::ios::app) << names.str() << std::flush;
  }
};

}  // namespace

void note_executed(const void* kernel) {
  static executed_kernels all;
  all.kernels.insert(kernel);
}

}  // namespace simt
