// Mail over MPI's messages between two ranks.
#pragma once

#include <memory>

#include "comm/mail.h"
#include "comm/mpi_thread.h"

namespace crossbow {

/// Of this rank among so many. The MPI thread does nothing else between `open` and `close`.
std::unique_ptr<Mail> make_mpi_mail(MpiThread& mpi, int ranks, size_t vector_bytes);

}  // namespace crossbow
