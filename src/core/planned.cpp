#include "core/planned.h"

#include "core/error.h"

namespace crossbow {
namespace {

struct Planned {
  std::string_view name, what;
};

constexpr std::string_view kGpus = "training on GPUs", kMachines = "training on several machines",
                           kWeights = "training from the weights of a file",
                           kSaves = "saving within an epoch", kData = "reading such data sets";
constexpr Planned kPlanned[] = {{"gpu", kGpus},
                                {"gpus", kGpus},
                                {"cuda", kGpus},
                                {"mpi", kMachines},
                                {"hosts", kMachines},
                                {"distributed", kMachines},
                                {"ranks", kMachines},
                                {"min-ranks", kMachines},
                                {"spares", kMachines},
                                {"init", kWeights},
                                {"freeze", kWeights},
                                {"checkpoint-every", kSaves},
                                {"save-every", kSaves},
                                {"tf32", kGpus},
                                {"imagenet", kData},
                                {"tar", kData},
                                {"tfrecord", kData},
                                {"onnx", "reading or writing of ONNX files"},
                                {"export", "export of models"},
                                {"import", "import of models"},
                                {"report", "report of a run"}};

}  // namespace

void refuse_planned(std::string_view said, std::string_view name) {
  for (const Planned& planned : kPlanned) {
    if (name != planned.name) continue;
    fail_usage("{}: {} does not exist yet in this version", said, planned.what);
  }
}

}  // namespace crossbow
