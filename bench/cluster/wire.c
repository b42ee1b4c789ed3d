// Between two ranks: the seconds that an empty message takes, and the bytes a second of large ones.
// usage: mpirun -n 2 wire BYTES
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/// There and back, halved: the median of many.
static double one_way(char* bytes, int size, int rank) {
  enum { kTries = 201 };
  static double tries[kTries];
  for (int t = 0; t < kTries; ++t) {
    const double begin = MPI_Wtime();
    for (int way = 0; way < 2; ++way) {
      if (way == rank)
        MPI_Send(bytes, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
      else
        MPI_Recv(bytes, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    tries[t] = (MPI_Wtime() - begin) / 2;
  }
  for (int i = 1; i < kTries; ++i) {
    for (int j = i; j > 0 && tries[j] < tries[j - 1]; --j) {
      const double other = tries[j];
      tries[j] = tries[j - 1];
      tries[j - 1] = other;
    }
  }
  return tries[kTries / 2];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int size = atoi(argv[1]);
  char* const bytes = calloc((size_t)size + 1, 1);
  const double latency = one_way(bytes, 0, rank), whole = one_way(bytes, size, rank);
  if (rank == 0)
    printf("{\"latency\": %.9g, \"bandwidth\": %.9g}\n", latency, size / (whole - latency));
  MPI_Finalize();
}
