// Runs over Open MPI 5, where scripts/cluster --survivors has put it. Without that they are
// skipped.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/program.h"
#include "support/paths.h"
#include "train/checkpoints.h"

namespace crossbow::testing {

class SurvivorsTest : public ProgramTest {
 protected:
  static constexpr int kTrainingImages = 176;

  SurvivorsTest() : ProgramTest(kTrainingImages) {}

  void SetUp() override {
    look_for_no_leaks();
    const Outcome o = shell(library_path() + crossbow_binary() + " --version");
    if (o.out.find("Open MPI v5") == std::string::npos) {
      GTEST_SKIP() << "scripts/cluster --survivors has not installed Open MPI 5";
    }
  }
  static std::filesystem::path prefix() {
    return std::filesystem::path(source_folder()) / "build/openmpi5";
  }
  static std::string library_path() {
    return fmt::format("env LD_LIBRARY_PATH={}/crossbow ", prefix().string());
  }
  /// What runs a command by so many ranks.
  static std::string mpirun(int ranks, const std::string& options = "") {
    return fmt::format(
        "{0}{1}/bin/mpirun --with-ft ulfm --oversubscribe --bind-to none --allow-run-as-root "
        "-x LD_LIBRARY_PATH --mca mpi_ft_detector true --mca mpi_ft_detector_period 0.3 "
        "--mca mpi_ft_detector_timeout 1.0 --mca mpi_ft_detector_thread false "
        "--mca mpi_ft_propagator_with_rbcast true {2} -n {3} ",
        library_path(), prefix().string(), options, ranks);
  }
  /// A run that takes some seconds.
  std::string train(const std::string& more, int epochs = kEpochs) const {
    return fmt::format(
        "{} train --model resnet-20 --learners 1 --threads-per-learner 1 --epochs {} --batch 16 "
        "--json --out run --data {} {}",
        crossbow_binary(), epochs, data_.spec(), more);
  }
  /// The process of a rank of the run.
  pid_t process_of(int rank) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::error_code gone;
      if (text_of(entry.path() / "comm") != "crossbow\n" ||
          !std::filesystem::equivalent(entry.path() / "cwd", path(""), gone)) {
        continue;
      }
      const std::string variable = fmt::format("OMPI_COMM_WORLD_RANK={}", rank);
      const std::string all = '\0' + text_of(entry.path() / "environ");
      if (all.find('\0' + variable + '\0') != std::string::npos) {
        return std::stoi(entry.path().filename());
      }
    }
    return 0;
  }
  /// What a run that ended well has printed, once its folder is found to be whole.
  nlohmann::json result_of(const Outcome& o, int epochs = kEpochs) const {
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(load(path("run").string()).history.size(), static_cast<size_t>(epochs));
    std::vector<int> seen;
    std::istringstream lines(text_of(path("run") / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto j = nlohmann::json::parse(line);
      if (j.contains("epoch")) seen.push_back(j["epoch"]);
    }
    std::vector<int> all(static_cast<size_t>(epochs));
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(seen, all);
    return o.code == 0 ? nlohmann::json::parse(o.out) : nlohmann::json();
  }
  bool has_begun() const {
    return comes([&] { return text_of(path("err")).find("epoch 2/") != std::string::npos; });
  }

  static constexpr int kEpochs = 40;
};

}  // namespace crossbow::testing
