#include <mpi.h>
#include <unistd.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>

#include "comm/mpi/calls.h"
#include "comm/rank_lost.h"
#include "core/exceptions.h"

// Of PMIx, by which Open MPI's processes talk to their launcher; its headers are not always there,
// and it need not be there either. NOLINTBEGIN: its names
extern "C" {
[[gnu::weak]] void* PMIx_Proc_create(size_t n);
[[gnu::weak]] void PMIx_Proc_load(void* process, const char* job, uint32_t number);
[[gnu::weak]] void* PMIx_Info_create(size_t n);
[[gnu::weak]] int PMIx_Info_load(void* info, const char* key, const void* value, uint16_t type);
using PmixAnswer = void(int, void*, size_t, void*, void (*release)(void*), void* to_release);
[[gnu::weak]] int PMIx_Job_control_nb(const void* processes, size_t n, const void* infos, size_t m,
                                      PmixAnswer* answer, void* context);
}
// NOLINTEND

namespace crossbow {
namespace {

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
constexpr bool kHasUlfm = true;

bool tells_of_loss(int result) {
  int kind = 0;
  MPI_Error_class(result, &kind);
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING ||
         kind == MPIX_ERR_REVOKED;
}
void revoke(MPI_Comm comm) {
  MPIX_Comm_revoke(comm);
}
int shrink(MPI_Comm comm, MPI_Comm* rest) {
  return MPIX_Comm_shrink(comm, rest);
}
int agree(MPI_Comm comm, int* flags, MPI_Request* request) {
  return MPIX_Comm_iagree(comm, flags, request);
}
/// The result of what all have called: a success on all processes, or on none.
int agreed(MPI_Comm comm, int result) {
  int all_succeeded = result == MPI_SUCCESS;
  const int agreement = MPIX_Comm_agree(comm, &all_succeeded);
  if (agreement != MPI_SUCCESS) return agreement;
  return all_succeeded || result != MPI_SUCCESS ? result : MPIX_ERR_REVOKED;
}
/// Of any call on it, as far as is known.
int result_on(MPI_Comm comm) {
  int revoked = 0;
  MPIX_Comm_is_revoked(comm, &revoked);
  return revoked ? MPIX_ERR_REVOKED : MPI_SUCCESS;
}
#else
constexpr bool kHasUlfm = false;

bool tells_of_loss(int) {
  return false;
}
void revoke(MPI_Comm) {}
int shrink(MPI_Comm, MPI_Comm*) {
  return MPI_ERR_OTHER;
}
int agree(MPI_Comm, int*, MPI_Request*) {
  return MPI_ERR_OTHER;
}
int agreed(MPI_Comm, int result) {
  return result;
}
int result_on(MPI_Comm) {
  return MPI_SUCCESS;
}
#endif

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
    if (provided < MPI_THREAD_FUNNELED) {
      throw Error("this MPI cannot be called by a thread of its own");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const char* const enabled = std::getenv("OMPI_MCA_mpi_ft_enable");  // by mpirun --with-ft
    survives_ = kHasUlfm && enabled && std::atoi(enabled) > 0;
  }
  void finalise() override {
    if (!survives_) MPI_Finalize();  // which can wait for ever for one that is lost
  }
  void abort(int code) override {
    if (lost_ && processes() == 1) _exit(code);  // which the launcher passes on, unlike an abort
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();
  }

  bool survives() const override { return survives_; }
  std::vector<int> shrink() override {
    hear_of_losses();
    MPI_Comm rest = MPI_COMM_NULL;
    check(crossbow::shrink(all_, &rest), "MPIX_Comm_shrink");
    MPI_Group before = MPI_GROUP_NULL, after = MPI_GROUP_NULL;
    MPI_Comm_group(all_, &before);
    MPI_Comm_group(rest, &after);
    all_ = comm_ = rest;
    std::vector<int> now(static_cast<size_t>(processes())), then(now.size());
    std::iota(now.begin(), now.end(), 0);
    MPI_Group_translate_ranks(after, processes(), now.data(), before, then.data());
    MPI_Group_free(&before);
    MPI_Group_free(&after);
    request_ = MPI_REQUEST_NULL;
    agrees_since_.reset();
    messages_.clear();
    return then;
  }
  void choose_ranks(bool is_rank, int key) override {
    MPI_Comm chosen = MPI_COMM_NULL;
    int result = MPI_Comm_split(all_, is_rank ? 0 : 1, key, &chosen);
    if (survives_) result = agreed(all_, result);
    check(result, "MPI_Comm_split");
    comm_ = chosen;
  }
  void agree() override {
    begin(crossbow::agree(comm_, &flags_, &request_), "MPIX_Comm_iagree");
    agrees_since_ = Clock::now();
  }
  void give_sign_of_life() override {
    int arrived = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, kNoTag, all_, &arrived, MPI_STATUS_IGNORE);
  }
  void await_dismissal(int process) override {
    begin(MPI_Irecv(&dismissed_, 1, MPI_BYTE, process, 0, all_, &request_), "MPI_Irecv");
  }
  void dismiss(int process) override {
    begin(MPI_Isend(&dismissed_, 1, MPI_BYTE, process, 0, all_, &request_), "MPI_Isend");
  }

  void kill(std::span<const int> first_numbers) override {
    const char* const job = std::getenv("PMIX_NAMESPACE");
    const bool knows_how = PMIx_Proc_create && PMIx_Proc_load && PMIx_Info_create &&
                           PMIx_Info_load && PMIx_Job_control_nb;
    if (!job || !knows_how) return;
    constexpr size_t kProcessBytes = 256 + sizeof(uint32_t);  // of a pmix_proc_t: job and number
    constexpr uint16_t kBool = 1;
    constexpr bool kYes = true;
    // These stay, as few are killed, and the answer may come later.
    void* const processes = PMIx_Proc_create(first_numbers.size());
    for (size_t i = 0; i < first_numbers.size(); ++i) {
      PMIx_Proc_load(static_cast<std::byte*>(processes) + i * kProcessBytes, job,
                     static_cast<uint32_t>(first_numbers[i]));
    }
    void* const order = PMIx_Info_create(1);
    PMIx_Info_load(order, "pmix.jctrl.kill", &kYes, kBool);
    auto* const answered = new std::atomic<bool>(false);
    const auto answer = [](int, void*, size_t, void* context, void (*release)(void*), void* what) {
      if (release) release(what);
      static_cast<std::atomic<bool>*>(context)->store(true);
    };
    if (PMIx_Job_control_nb(processes, first_numbers.size(), order, 1, answer, answered) != 0) {
      return;
    }
    for (int i = 0; i < 50 && !answered->load(); ++i) {
      usleep(10'000);
      give_sign_of_life();
    }
  }

  int process() const override { return number_in(all_); }
  int processes() const override {
    int size = 0;
    MPI_Comm_size(all_, &size);
    return size;
  }
  std::string host() const override {
    std::string name(MPI_MAX_PROCESSOR_NAME, '\0');
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    return name.substr(0, static_cast<size_t>(length));
  }

  void broadcast(std::byte* bytes, int size, int from) override {
    begin(MPI_Ibcast(bytes, size, MPI_BYTE, from, comm_, &request_), "MPI_Ibcast");
  }
  void all_gather(const std::byte* own, std::byte* all, const Pieces& pieces) override {
    begin(MPI_Iallgatherv(own, pieces.sizes[static_cast<size_t>(number_in(comm_))], MPI_BYTE, all,
                          pieces.sizes.data(), pieces.begins.data(), MPI_BYTE, comm_, &request_),
          "MPI_Iallgatherv");
  }
  void all_to_all(const std::byte* from, const Pieces& sent, std::byte* to,
                  const Pieces& received) override {
    begin(MPI_Ialltoallv(from, sent.sizes.data(), sent.begins.data(), MPI_BYTE, to,
                         received.sizes.data(), received.begins.data(), MPI_BYTE, comm_, &request_),
          "MPI_Ialltoallv");
  }
  void send(const std::byte* bytes, int size, int to) override {
    begin(MPI_Isend(bytes, size, MPI_BYTE, to, 0, comm_, &request_), "MPI_Isend");
  }
  void receive(std::byte* bytes, int size, int from) override {
    begin(MPI_Irecv(bytes, size, MPI_BYTE, from, 0, comm_, &request_), "MPI_Irecv");
  }
  bool is_done() override {
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), begun_);
    if (done) {
      agrees_since_.reset();
    } else if (agrees_since_ && Clock::now() - *agrees_since_ > kTimeToAgree) {
      check(result_on(comm_), begun_);
    }
    return done != 0;
  }

  void number_messages(int n) override {
    messages_.resize(static_cast<size_t>(n), MPI_REQUEST_NULL);
  }
  void begin_send(int number, const std::byte* bytes, int size, int to, int tag) override {
    check(MPI_Isend(bytes, size, MPI_BYTE, to, tag, comm_, &message(number)), "MPI_Isend");
  }
  void begin_receive(int number, std::byte* bytes, int size, int from, int tag) override {
    const int source = from == kAnybody ? MPI_ANY_SOURCE : from;
    check(MPI_Irecv(bytes, size, MPI_BYTE, source, tag, comm_, &message(number)), "MPI_Irecv");
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
    if (message(number) == MPI_REQUEST_NULL) return;
    MPI_Cancel(&message(number));
    MPI_Wait(&message(number), MPI_STATUS_IGNORE);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kNoTag = 32767;  // of no message
  // Revoking does not end an agreement among some of the processes, and those that had begun it
  // would wait for those that have turned to shrinking. One that all had begun has come to its end
  // by then.
  static constexpr std::chrono::seconds kTimeToAgree{2};

  /// Of all that come together: Open MPI 5.0.11 can crash where it hears of one while it shrinks.
  static void hear_of_losses() {
    const auto end = Clock::now() + std::chrono::milliseconds(100);
    for (int arrived = 0; Clock::now() < end; usleep(100)) {
      MPI_Iprobe(MPI_ANY_SOURCE, kNoTag, MPI_COMM_SELF, &arrived, MPI_STATUS_IGNORE);
    }
  }

  /// The others are to find out, too.
  void check(int result, const char* what) {
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(result, text.data(), &length);
    const std::string message = std::string(what) + " failed: " + text.data();
    if (!tells_of_loss(result)) throw Error(message);
    lost_ = true;
    revoke(comm_);
    revoke(all_);
    throw RankLost(message);
  }
  static int number_in(MPI_Comm comm) {
    int number = 0;
    MPI_Comm_rank(comm, &number);
    return number;
  }
  MPI_Request& message(int number) { return messages_[static_cast<size_t>(number)]; }
  void begin(int result, const char* what) {
    check(result, what);
    begun_ = what;
  }

  MPI_Comm all_ = MPI_COMM_WORLD, comm_ = MPI_COMM_WORLD;  // of processes, of ranks
  bool lost_ = false;                                      // was a rank
  char dismissed_ = 0;
  int flags_ = 1;
  bool survives_ = false;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::optional<Clock::time_point> agrees_since_;  // the request
  std::vector<MPI_Request> messages_;
  const char* begun_ = "";
};

}  // namespace
}  // namespace crossbow

extern "C" __attribute__((visibility("default"))) crossbow::MpiCalls* crossbow_mpi_calls_4() {
  static crossbow::Calls calls;
  return &calls;
}
