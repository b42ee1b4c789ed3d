// Checkpoints as versions 3 to 5 of the format had them: "CROSSBOW", u32 version, u32 length of
// the header, the header (JSON), the tensors in the header's order as row-major f32, u32 CRC-32 of
// everything before it; all little-endian.
#pragma once

#include "train/checkpoint.h"

namespace crossbow {

/// Whether the file begins as those do.
bool is_older_checkpoint(const FileBytes& file);
/// As `decode` and `decode_header`, of such a file.
Checkpoint decode_older(const FileBytes& file);
Checkpoint decode_older_header(const FileBytes& file);

}  // namespace crossbow
