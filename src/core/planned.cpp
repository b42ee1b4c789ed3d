#include "core/planned.h"

#include <algorithm>

#include "core/error.h"

namespace crossbow {
namespace {

struct Planned {
  std::string_view name, what;
};

constexpr std::string_view kGpus = "training on GPUs", kSurvivors = "going on without a lost rank";
constexpr Planned kPlanned[] = {{"gpu", kGpus},
                                {"gpus", kGpus},
                                {"cuda", kGpus},
                                {"min-ranks", kSurvivors},
                                {"spares", kSurvivors},
                                {"tf32", kGpus},
                                {"onnx", "reading or writing of ONNX files"},
                                {"import", "import of models"},
                                {"report", "report of a run"}};

constexpr std::string_view kOfLaunchers[] = {"mpi", "hosts", "distributed", "ranks"};

}  // namespace

void refuse_planned(std::string_view said, std::string_view name) {
  if (std::ranges::find(kOfLaunchers, name) != std::end(kOfLaunchers)) {
    fail_usage(
        "{}: MPI's launcher says how many processes train, and where: mpirun -n 2 --bind-to none "
        "crossbow "
        "train ...",
        said);
  }
  for (const Planned& planned : kPlanned) {
    if (name != planned.name) continue;
    fail_usage("{}: {} does not exist yet in this version", said, planned.what);
  }
}

}  // namespace crossbow
