// What kernels for a GPU are made for.
#pragma once

namespace crossbow {

struct Target {
  bool clusters;  // blocks can run at the same time and read each other's shared memory
  bool crowded;   // PrepareContext::crowded
};

}  // namespace crossbow
