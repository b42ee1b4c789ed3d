#include "core/planned.h"

#include <algorithm>

#include "core/error.h"

namespace crossbow {
namespace {

struct Planned {
  std::string_view name, what;
};

constexpr Planned kPlanned[] = {{"onnx", "reading or writing of ONNX files"},
                                {"import", "import of models"},
                                {"report", "report of a run"}};

constexpr std::string_view kOfGpus[] = {"gpu", "gpus", "cuda"};
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
  if (std::ranges::find(kOfGpus, name) != std::end(kOfGpus)) {
    fail_usage("{}: `device` says which GPUs train: cuda, or cuda:0,cuda:1 for two", said);
  }
  for (const Planned& planned : kPlanned) {
    if (name != planned.name) continue;
    fail_usage("{}: {} does not exist yet in this version", said, planned.what);
  }
}

}  // namespace crossbow
