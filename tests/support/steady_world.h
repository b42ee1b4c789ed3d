// Ranks of which none is lost, and no spares.
#pragma once

#include "comm/world.h"
#include "core/error.h"

namespace crossbow::testing {

class SteadyWorld : public World {
 public:
  const std::string& host(int) const override { return host_; }
  void send(std::span<const std::byte>, int) override { fail("not for tests"); }
  void receive(std::span<std::byte>, int) override { fail("not for tests"); }
  void agree() override {}
  bool survives() const override { return false; }
  std::vector<LostRank> recover(Role) override { fail("not for tests"); }
  void take_in_spares() override {}
  bool is_done() const override { return false; }
  bool prevails() const override { return true; }
  bool is_spare() const override { return false; }
  bool await_loss() override { return false; }
  void dismiss_spares() override {}
  void end_unheard() override {}
  void abort(int) override { std::terminate(); }

 private:
  const std::string host_ = "here";
};

}  // namespace crossbow::testing
