// What is printed for people fits a terminal of 80 columns, also where it goes into a pipe.
#include <sstream>

#include "cli/program.h"
#include "core/text.h"
#include "data/cifar_files.h"

namespace crossbow::testing {
namespace {

class Width : public ProgramTest {
 protected:
  void expect_fits(const std::string& arguments) {
    const Outcome o = crossbow(arguments);
    EXPECT_EQ(o.code, 0) << arguments << '\n' << o.err;
    std::istringstream lines(o.out + o.err);
    int seen = 0;
    for (std::string line; std::getline(lines, line); ++seen) {
      EXPECT_LE(columns_of(line), 80u) << arguments << ":\n" << line;
    }
    EXPECT_GT(seen, 0) << arguments;
  }
};

TEST_F(Width, OfHelp) {
  for (const char* command :
       {"", "train", "simulate", "eval", "predict", "runs", "bench", "models", "data", "data fetch",
        "data check", "convert", "devices", "graph", "completion"}) {
    expect_fits(std::string(command) + " --help");
  }
  expect_fits("--version");
}

TEST_F(Width, OfLists) {
  expect_fits("models");
  for (const char* model : {"lenet", "mlp", "resnet-20", "vgg-16"}) {
    expect_fits(std::string("models ") + model);
  }
  expect_fits("data");
}

TEST_F(Width, OfGraphsAndBenches) {
  expect_fits("graph --device ref --model resnet-20 --training");
  expect_fits("graph --device ref --model vgg-16");
  expect_fits("bench --seconds 0.1 --model resnet-20 --learners 2 --deterministic");
}

TEST_F(Width, OfRuns) {
  std::filesystem::create_symlink(data_.path(), path("data"));
  const auto train = [&](const std::string& more) {
    return tiny("--data mnist:data --patience 2 --keep-best --target-accuracy 0.01 " + more);
  };
  expect_fits(train("--out runs/a-run-whose-name-has-many-words-and-a-number-1 --warmup 5"));
  expect_fits(
      train("--learners 2 --sync post-local-sgd --out runs/b --clip-norm 0.123456789 "
            "--pad 1 --mirror --batch 5 --weight-decay 0.00012345"));
  expect_fits("runs");
  expect_fits("eval runs/b");
  data::write_cifar10(path("cifar10"), 10);
  expect_fits("train --device ref --model logistic --data cifar10:cifar10 --epochs 1 --out runs/c");
  expect_fits("eval runs/c");
}

}  // namespace
}  // namespace crossbow::testing
