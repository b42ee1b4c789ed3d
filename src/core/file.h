// Writing files so that a reader, or a crash, never sees half of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>

namespace crossbow {

/// Replaces `path` by the concatenation of `parts`: written to a temporary file beside it, synced,
/// renamed over it, and the folder synced. On failure (a full disk, an unwritable folder) the
/// temporary file is removed, whatever was at `path` is left as it was, and Error is thrown.
/// Several processes may write the same path at a time; one of them wins whole.
void write_file_atomically(const std::filesystem::path& path,
                           std::initializer_list<std::span<const uint8_t>> parts);

}  // namespace crossbow
