// Reading of text files of rows: rates are of the text. The files are drawn anew, in the temporary
// folder, and lie in the system's cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/rng.h"
#include "data/dataset.h"

namespace crossbow {
namespace {

struct Shape {
  int features, least, most;  // numbers of a row
  bool ones;                  // else numbers with six digits
};

/// A file of at least so many bytes, and FILE.t with one row.
class RowsFile {
 public:
  RowsFile(const Shape& shape, size_t bytes)
      : path_(std::filesystem::temp_directory_path() / fmt::format("rows-{}", getpid())) {
    Rng rng(1, Purpose::synthetic);
    std::string text;
    while (text.size() < bytes) append_row(shape, rng, text);
    std::ofstream(path_) << text;
    std::ofstream(path_.string() + ".t") << "1 1:1\n";
    bytes_ = static_cast<int64_t>(text.size());
  }
  ~RowsFile() {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_.string() + ".t");
  }
  RowsFile(const RowsFile&) = delete;

  std::string name() const { return "libsvm:" + path_.string(); }
  int64_t bytes() const { return bytes_; }

 private:
  static void append_row(const Shape& shape, Rng& rng, std::string& text) {
    const int numbers =
        shape.least +
        static_cast<int>(rng.below(static_cast<uint32_t>(shape.most - shape.least + 1)));
    text += rng.below(2) == 0 ? "-1" : "+1";
    const auto step = static_cast<uint32_t>(std::max(1, shape.features / numbers));
    for (int k = 0, index = 1; k < numbers; ++k) {
      text += shape.ones ? fmt::format(" {}:1", index)
                         : fmt::format(" {}:{:.6f}", index, rng.uniform());
      index += 1 + static_cast<int>(rng.below(step));
    }
    text += '\n';
  }

  std::filesystem::path path_;
  int64_t bytes_ = 0;
};

void open_libsvm(benchmark::State& state, const Shape& shape) {
  const RowsFile file(shape, size_t{100} << 20);
  data::OpenOptions options;
  options.threads = static_cast<int>(state.range(0));
  for (auto unused : state) benchmark::DoNotOptimize(data::open_dataset(file.name(), options));
  state.SetBytesProcessed(state.iterations() * file.bytes());
}

BENCHMARK_CAPTURE(open_libsvm, like_real_sim, {20958, 20, 84, false})
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(open_libsvm, like_w8a, {300, 4, 22, true})
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace crossbow

BENCHMARK_MAIN();
