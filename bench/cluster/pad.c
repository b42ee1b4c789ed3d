// Loaded before oneDNN, by LD_PRELOAD: a training step has a sleep of PAD_SECONDS before the first
// forward pass of a layer that oneDNN computes; on rank PAD_SLOW_RANK of PAD_SLOW_SECONDS. So many
// ranks' steps fit on few cores. PAD_RECORD names a file for the seconds from each sleep's begin to the next one's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double pad(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *slow = getenv("PAD_SLOW_RANK");
  const char* text =
      getenv(rank && slow && strcmp(rank, slow) == 0 ? "PAD_SLOW_SECONDS" : "PAD_SECONDS");
  return text ? atof(text) : 0;
}

static void begin_step(void) {
  static double before;
  static FILE* record;
  if (before == 0 && getenv("PAD_RECORD")) record = fopen(getenv("PAD_RECORD"), "w");
  const double now = seconds(), length = pad();
  if (record && before > 0) fprintf(record, "%.9f\n", now - before);
  if (record) fflush(record);
  before = now;
  struct timespec rest = {(time_t)length, (long)(1e9 * (length - (double)(time_t)length))};
  nanosleep(&rest, NULL);
}

/// The first forward pass of a layer after a gradient of weights begins a step.
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n,
                                     const dnnl_exec_arg_t* arguments) {
  static dnnl_status_t (*execute)(const_dnnl_primitive_t, dnnl_stream_t, int,
                                  const dnnl_exec_arg_t*);
  static _Thread_local bool had_gradient;
  if (!execute) *(void**)&execute = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
  const_dnnl_primitive_desc_t description = NULL;
  dnnl_prop_kind_t kind = dnnl_prop_kind_undef;
  if (dnnl_primitive_get_primitive_desc(primitive, &description) == dnnl_success) {
    dnnl_primitive_desc_query(description, dnnl_query_prop_kind, 0, &kind);
  }
  if (kind == dnnl_backward_weights) had_gradient = true;
  if (had_gradient && (kind == dnnl_forward_training || kind == dnnl_forward_inference)) {
    had_gradient = false;
    begin_step();
  }
  return execute(primitive, stream, n, arguments);
}
