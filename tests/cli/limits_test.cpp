// Limits of the system and variables of the environment that leave the program less than it wants:
// it ends in a sentence, never by a signal or not at all.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include "cli/program.h"

namespace crossbow::testing {
namespace {

class Limits : public ProgramTest {
 protected:
  Limits() {
    for (const auto& path : {work_.path(), data_.path()}) chmod(path.c_str(), 0777);
  }

  /// Runs `crossbow ARGUMENTS` in a process of its own, after `prepare`.
  Outcome crossbow(const std::string& arguments, const std::function<void()>& prepare) {
    return end_of(start("exec " + crossbow_binary() + ' ' + arguments, prepare),
                  std::chrono::seconds(60));
  }

  /// A run of a few steps on the CPU.
  std::string train(const std::string& more) const {
    return "train --model resnet-20 --epochs 1 --deterministic --data " + data_.spec() + ' ' + more;
  }

  void expect_sentence(const Outcome& o, int code, const std::string& sentence) {
    EXPECT_EQ(o.code, code) << o.err;
    expect_says(o.err, sentence);
  }
};

void set_limit(int resource, rlim_t value) {
  const rlimit limit{value, value};
  if (setrlimit(resource, &limit) != 0) _exit(126);
}

/// Root has no limit on its processes, so the child becomes somebody who has no other.
void allow_threads(rlim_t count) {
  if (getuid() == 0 && (setgid(54321) != 0 || setuid(54321) != 0)) _exit(126);
  set_limit(RLIMIT_NPROC, count);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // which takes a thread of its own
}

TEST_F(Limits, VariablesThatForbidTeamsAreNamed) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU allows no teams";
  const auto with = [](const char* name, const char* value) {
    return [=] { setenv(name, value, 1); };
  };
  const std::string two = "--learners 1 --threads-per-learner 2";
  for (const std::string& command :
       {train(two), std::string("bench --model lenet --batch 4 --seconds 0.1 " + two)}) {
    expect_sentence(crossbow(command, with("OMP_THREAD_LIMIT", "1")), 2,
                    "OMP_THREAD_LIMIT=1: it forbids teams of 2 threads; unset it, or choose "
                    "--threads-per-learner 1");
    expect_sentence(crossbow(command, with("OMP_MAX_ACTIVE_LEVELS", "0")), 2,
                    "OMP_MAX_ACTIVE_LEVELS=0: it forbids teams of 2 threads");
    expect_sentence(crossbow(command, with("OMP_DYNAMIC", "true")), 0, "");
  }
  ASSERT_EQ(crossbow(train("--learners 1 --threads-per-learner 1 --out run"), [] {}).code, 0);
  expect_sentence(crossbow("eval run --threads-per-learner 2", with("OMP_THREAD_LIMIT", "1")), 2,
                  "OMP_THREAD_LIMIT=1");
}

/// What the message proposes is no setting that a resumed run can change.
TEST_F(Limits, AResumedRunIsToldToLiftTheLimit) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU allows no teams";
  const auto limited = [] { setenv("OMP_THREAD_LIMIT", "1", 1); };
  ASSERT_EQ(crossbow(train("--learners 1 --threads-per-learner 2 --out run"), [] {}).code, 0);
  expect_sentence(crossbow("train --epochs 2 --resume run", limited), 2,
                  "a resumed run keeps its settings, so that others need a new one");
}

TEST_F(Limits, WithoutACacheFolderNothingIsPromised) {
  const std::string command =
      "train --model resnet-20 --epochs 1 --learners 1 --data " + data_.spec();
  std::ofstream(path("crossbow")) << "a file in the folder's place";
  expect_says(crossbow(command, [] {}).out,
              "results depend on timing, as the chosen kernels cannot be kept");
  std::filesystem::remove(path("crossbow"));
  expect_says(crossbow(command, [] {}).out, "same seed, same bits");
}

TEST_F(Limits, TooFewThreadsEndInASentence) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer takes a thread of its own";
#endif
  const std::string learners = std::thread::hardware_concurrency() < 2
                                   ? "--learners 2 --threads-per-learner 1"
                                   : "--learners 2 --threads-per-learner 2";
  bool refused = false, trained = false;
  for (rlim_t threads = 1; threads <= 12; ++threads) {
    const Outcome o = crossbow(train(learners + " --out run" + std::to_string(threads)),
                               [=] { allow_threads(threads); });
    if (o.code == 126 || o.code == 127) GTEST_SKIP() << "this user cannot be another";
    EXPECT_TRUE(o.code == 0 || o.code == 1) << threads << ": " << o.code << ' ' << o.err;
    trained |= o.code == 0;
    if (o.code == 0) continue;
    refused = true;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "the system refuses another thread", o.err)
        << threads;
  }
  EXPECT_TRUE(refused);
  if (getuid() == 0) {
    EXPECT_TRUE(trained);
  }
}

/// From about as much as the loader needs (with less there is no main() that could say anything) to
/// enough to train: whatever is short, the program says so.
TEST_F(Limits, TooLittleMemoryEndsInASentence) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer takes more address space than any limit";
#endif
  bool refused = false, trained = false;
  // With less, the program and its libraries have no room before main() begins.
  for (rlim_t mib = 118; mib <= 760; mib += mib < 166 ? 6 : mib < 400 ? 18 : 120) {
    const Outcome o =
        crossbow(train("--learners 2 --threads-per-learner 1 --out run" + std::to_string(mib)),
                 [=] { set_limit(RLIMIT_AS, mib << 20); });
    EXPECT_TRUE(o.code == 0 || o.code == 1 || o.code == 2) << mib << ": " << o.code;
    (o.code == 0 ? trained : refused) = true;
    if (o.code == 0) continue;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "crossbow train: ", o.err) << mib;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(trained);
}

/// Before anything is allocated: the sentence names what is needed and what may be had.
TEST_F(Limits, LearnersThatDoNotFitAreRefusedByWhatTheyNeed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer takes more address space than any limit";
#endif
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    const Outcome o = crossbow(
        "train --model mlp:layers=4,width=4096 --learners 2 --threads-per-learner 1 --epochs 1 "
        "--deterministic --data " +
            data_.spec(),
        [=] { set_limit(resource, rlim_t{600} << 20); });
    expect_sentence(o, 2, "--learners 2: with a batch of");
    expect_says(o.err, "and this process may take");
  }
}

}  // namespace
}  // namespace crossbow::testing
