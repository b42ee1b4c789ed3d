#include "data/batch_source.h"

#include "core/error.h"

namespace crossbow::data {

const Batch& BatchSource::acquire_rows(int64_t first, int64_t rows, int) {
  fail("the rows {} to {} are wanted of a source that serves whole batches", first, first + rows);
}

}  // namespace crossbow::data
