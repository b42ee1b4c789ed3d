#include "device/host_team.h"

#include <omp.h>

#include "core/error.h"
#include "core/threads.h"

namespace crossbow {
namespace {

void set_width(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

}  // namespace

void set_host_team(int threads) {
  set_width(threads);
#pragma omp parallel
  omp_get_thread_num();
}

void expect_host_team(int threads) {
  omp_pause_resource_all(omp_pause_soft);
  set_width(threads);
  if (threads == 1) return;
  if (const int limit = omp_get_thread_limit(); limit < threads) {
    fail_usage(
        "OMP_THREAD_LIMIT={}: it forbids teams of {} threads; unset it, or choose "
        "`threads-per-learner` {}",
        limit, threads, limit);
  }
  if (omp_get_max_active_levels() < 1) {
    fail_usage(
        "OMP_MAX_ACTIVE_LEVELS=0: it forbids teams of {} threads; unset it, or choose "
        "`threads-per-learner` 1",
        threads);
  }
  expect_threads(threads - 1);
}

}  // namespace crossbow
