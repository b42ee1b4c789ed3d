// Ranks on several machines, whose network is cut: over Open MPI 5, on network namespaces.
#include <gtest/gtest.h>

#include <optional>

#include "cli/survivors.h"
#include "core/error.h"
#include "support/hosts.h"

namespace crossbow::testing {
namespace {

using nlohmann::json;
using std::chrono_literals::operator""s;

/// A rank on each of three machines, with one network for daemons and one for ranks.
class Network : public SurvivorsTest {
 protected:
  void SetUp() override {
    SurvivorsTest::SetUp();
    if (IsSkipped()) return;
    try {
      hosts_.emplace(kHosts, path("").string());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  /// Of which the first runs the launcher.
  pid_t start_training(const std::string& more) const {
    std::string all;
    for (int h = 0; h < kHosts; ++h)
      all += fmt::format("{}{}:1", h > 0 ? "," : "", hosts_->name(h));
    const std::string options = fmt::format(
        "--prtemca plm_ssh_agent {} --prtemca oob_tcp_if_include {} --mca btl_tcp_if_include {} "
        "--host {}",
        hosts_->agent(), Hosts::kDaemons, Hosts::kRanks, all);
    const pid_t child = start(fmt::format("exec {} {} 'exec {}'", hosts_->agent(), hosts_->name(0),
                                          mpirun(kHosts, options) + train(more, kLongEnough)));
    EXPECT_TRUE(has_begun());
    return child;
  }
  /// Two ranks have gone on.
  void expect_loss_of(int host, const Outcome& o) const {
    const json run = result_of(o, kLongEnough);
    ASSERT_FALSE(run.is_null());
    EXPECT_EQ(run["ranks"], kHosts - 1) << o.err;
    ASSERT_EQ(run["lost_ranks"].size(), 1u) << o.err;
    EXPECT_EQ(run["lost_ranks"][0]["host"], hosts_->name(host));
    EXPECT_EQ(process_of(host), 0);
    EXPECT_FALSE(std::filesystem::exists(path("run-2"))) << o.err;
  }

  static constexpr int kHosts = 3, kLongEnough = 100;
  std::optional<Hosts> hosts_;
};

TEST_F(Network, OfWhichARankIsCutOffForGood) {
  for (const int host : {0, 2}) {
    SCOPED_TRACE(host);
    std::filesystem::remove(path("err"));
    const pid_t child = start_training("--min-ranks 2");
    hosts_->cut_off(host);
    expect_loss_of(host, end_of(child));
    hosts_->cut_off(host, false);
    std::filesystem::remove_all(path("run"));
  }
}

/// What comes late from it does not mislead those that go on.
TEST_F(Network, OfWhichARankIsCutOffForAWhile) {
  const pid_t child = start_training("");
  hosts_->cut_off(2);
  std::this_thread::sleep_for(3s);
  hosts_->cut_off(2, false);
  expect_loss_of(2, end_of(child));
}

/// Where the launcher cannot end it.
TEST_F(Network, OfWhichARankIsCutOffEndsThatRank) {
  const pid_t child = start_training("--min-ranks 2");
  hosts_->cut_off_daemon(2);
  hosts_->cut_off(2);
  std::this_thread::sleep_for(6s);
  EXPECT_EQ(process_of(2), 0);
  hosts_->cut_off(2, false);
  hosts_->cut_off_daemon(2, false);
  const Outcome o = end_of(child);
  expect_loss_of(2, o);
  expect_says(o.err, hosts_->name(2) + " does not hear of the others any more: only 1 rank left");
}

TEST_F(Network, GoesOnWithoutARankThatStandsStillOrIsKilled) {
  for (const int number : {SIGSTOP, SIGKILL}) {
    SCOPED_TRACE(number);
    std::filesystem::remove(path("err"));
    const pid_t child = start_training("");
    const pid_t process = process_of(1);
    ASSERT_GT(process, 0);
    kill(process, number);
    expect_loss_of(1, end_of(child));
    std::filesystem::remove_all(path("run"));
  }
}

/// The first is not counted among those that may live and go on, when the second is lost.
TEST_F(Network, ThatLosesOneRankAfterAnotherEndsWithAStatus) {
  const pid_t child = start_training("--min-ranks 2");
  for (const int host : {2, 1}) {
    const pid_t process = process_of(host);
    ASSERT_GT(process, 0);
    kill(process, SIGKILL);
    std::this_thread::sleep_for(4s);
  }
  const Outcome o = end_of(child);
  EXPECT_EQ(o.code, 1) << o.err;
  expect_says(o.err, "only 1 rank left, where at least 2 are to go on; go on from the last");
}

}  // namespace
}  // namespace crossbow::testing
