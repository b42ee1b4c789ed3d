#include "device/host_device.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/machine.h"
#include "device/host_team.h"

namespace crossbow {
namespace {

class HostEvent : public Event {
 public:
  void finish() const override {}
};

class HostQueue : public Queue {
 public:
  explicit HostQueue(std::string_view kernels) : kernels_(kernels) {}

  // An empty buffer, as of a net without states, has no address.
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void write(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void zero(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void mark(Event&) override {}
  void wait(const Event&) override {}
  void finish() override {}
  Call bind(const std::function<Call(Operands)>& kernel, Operands operands) override {
    return kernel(std::move(operands));
  }
  const VectorMath& math(DType dtype) override { return vector_math(kernels_, dtype); }
  std::unique_ptr<const Recording> record(const std::function<void()>&) override { return nullptr; }

 private:
  const std::string_view kernels_;
};

class HostDevice : public Device {
 public:
  HostDevice(std::string_view kernels, int64_t exchange_piece)
      : kernels_(kernels), exchange_piece_(exchange_piece) {}

  std::string_view kernels() const override { return kernels_; }
  bool is_host() const override { return true; }
  int64_t exchange_piece() const override { return exchange_piece_; }
  void set_team(int threads) override { set_host_team(threads); }
  void expect_team(int threads) override { expect_host_team(threads); }
  double memory_mb() const override { return crossbow::memory_mb(); }
  double free_memory_mb() const override { return crossbow::free_memory_mb(); }
  Buffer allocate(size_t bytes) override { return Buffer(bytes); }
  Buffer allocate_zeroed(size_t bytes) override { return Buffer(bytes); }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<HostQueue>(kernels_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<HostEvent>(); }

 private:
  const std::string_view kernels_;
  const int64_t exchange_piece_;
};

/// Small enough for a piece's mean to stay in the first cache, large enough to be worth a claim.
constexpr int64_t kPiece = 4096;

/// As many devices as cores, of which each is a group.
DeviceKind groups_of_cores() {
  const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return {.devices = physical_cores(),
          .threads = threads,
          .cpus = core_cpus(),
          .cores = physical_cores()};
}

const RegisterDevice kCpu{"cpu", groups_of_cores,
                          [](int) { return make_host_device("cpu", kPiece); }};
const RegisterDevice kRef{"ref", groups_of_cores,
                          [](int) { return make_host_device("ref", kPiece); }};

}  // namespace

std::unique_ptr<Device> make_host_device(std::string_view kernels, int64_t exchange_piece) {
  return std::make_unique<HostDevice>(kernels, exchange_piece);
}

}  // namespace crossbow
