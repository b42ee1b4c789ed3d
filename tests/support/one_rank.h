// A rank without others.
#pragma once

#include "support/steady_world.h"

namespace crossbow::testing {

class OneRank : public SteadyWorld {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    return {{bytes.begin(), bytes.end()}};
  }
  std::unique_ptr<Mail> make_mail(size_t) override { return nullptr; }
};

/// Its sums, which are its own values.
class OwnSums : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string failure() const override { return "rank 1 is lost"; }
  bool advance() override { return false; }
  bool can_advance() const override { return false; }
};

}  // namespace crossbow::testing
