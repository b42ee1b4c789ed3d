#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "comm/mpi/calls.h"
#include "core/error.h"

namespace crossbow {
namespace {

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail("{} failed: {}", what, text.data());
}

class Calls final : public MpiCalls {
 public:
  std::string version() const override {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    text.resize(std::min(text.find_first_of(",\n"), static_cast<size_t>(length)));
    std::replace(text.begin(), text.end(), '\t', ' ');
    const auto both_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
    text.erase(std::unique(text.begin(), text.end(), both_spaces), text.end());
    return text;
  }
  void initialise() override {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) fail("this MPI cannot be called by a thread of its own");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  void finalise() override { MPI_Finalize(); }
  void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();
  }

  int rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int size() const override {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  std::string host() const override {
    std::string name(MPI_MAX_PROCESSOR_NAME, '\0');
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    return name.substr(0, static_cast<size_t>(length));
  }

  void broadcast(std::byte* bytes, int size) override {
    begin(MPI_Ibcast(bytes, size, MPI_BYTE, 0, MPI_COMM_WORLD, &request_), "MPI_Ibcast");
  }
  void all_gather(const std::byte* own, std::byte* all, const Pieces& pieces) override {
    begin(MPI_Iallgatherv(own, pieces.sizes[static_cast<size_t>(rank())], MPI_BYTE, all,
                          pieces.sizes.data(), pieces.begins.data(), MPI_BYTE, MPI_COMM_WORLD,
                          &request_),
          "MPI_Iallgatherv");
  }
  void all_to_all(const std::byte* from, const Pieces& sent, std::byte* to,
                  const Pieces& received) override {
    begin(MPI_Ialltoallv(from, sent.sizes.data(), sent.begins.data(), MPI_BYTE, to,
                         received.sizes.data(), received.begins.data(), MPI_BYTE, MPI_COMM_WORLD,
                         &request_),
          "MPI_Ialltoallv");
  }
  void send(const std::byte* bytes, int size, int to) override {
    begin(MPI_Isend(bytes, size, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request_), "MPI_Isend");
  }
  void receive(std::byte* bytes, int size, int from) override {
    begin(MPI_Irecv(bytes, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, &request_), "MPI_Irecv");
  }
  bool is_done() override {
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), begun_);
    return done != 0;
  }

  void number_messages(int n) override {
    messages_.resize(static_cast<size_t>(n), MPI_REQUEST_NULL);
  }
  void begin_send(int number, const std::byte* bytes, int size, int to, int tag) override {
    check(MPI_Isend(bytes, size, MPI_BYTE, to, tag, MPI_COMM_WORLD, &message(number)), "MPI_Isend");
  }
  void begin_receive(int number, std::byte* bytes, int size, int from, int tag) override {
    const int source = from == kAnybody ? MPI_ANY_SOURCE : from;
    check(MPI_Irecv(bytes, size, MPI_BYTE, source, tag, MPI_COMM_WORLD, &message(number)),
          "MPI_Irecv");
  }
  std::optional<Ended> next_ended() override {
    int number = MPI_UNDEFINED, ended = 0;
    MPI_Status status;
    check(
        MPI_Testany(static_cast<int>(messages_.size()), messages_.data(), &number, &ended, &status),
        "MPI_Testany");
    if (!ended || number == MPI_UNDEFINED) return {};
    return Ended{number, status.MPI_SOURCE};
  }
  void cancel(int number) override {
    MPI_Cancel(&message(number));
    MPI_Wait(&message(number), MPI_STATUS_IGNORE);
  }

 private:
  MPI_Request& message(int number) { return messages_[static_cast<size_t>(number)]; }
  void begin(int result, const char* what) {
    check(result, what);
    begun_ = what;
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> messages_;
  const char* begun_ = "";
};

}  // namespace
}  // namespace crossbow

extern "C" __attribute__((visibility("default"))) crossbow::MpiCalls* crossbow_mpi_calls_2() {
  static crossbow::Calls calls;
  return &calls;
}
