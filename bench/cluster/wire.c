// Of ranks that all send at once, each to the next: the seconds that an empty message takes, and the
// bytes a second at which each sends and receives large ones.
// usage: mpirun -n RANKS wire BYTES
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kTries = 201 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/// Until the last rank has received: the median of many tries. On rank 0.
static double seconds_of(const char* sent, char* received, int size) {
  static double tries[kTries], last[kTries];
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int t = 0; t < kTries; ++t) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Sendrecv(sent, size, MPI_BYTE, next, 0, received, size, MPI_BYTE, previous, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    tries[t] = MPI_Wtime() - begin;
  }
  MPI_Reduce(tries, last, kTries, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  qsort(last, kTries, sizeof *last, compare);
  return last[kTries / 2];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int size = atoi(argv[1]);
  char *const sent = calloc((size_t)size + 1, 1), *const received = calloc((size_t)size + 1, 1);
  const double latency = seconds_of(sent, received, 0), whole = seconds_of(sent, received, size);
  if (rank == 0) {
    printf("{\"latency\": %.9g, \"bandwidth\": %.9g}\n", latency, size / (whole - latency));
  }
  MPI_Finalize();
}
