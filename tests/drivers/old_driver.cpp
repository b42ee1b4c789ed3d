// Stands for NVIDIA's driver where a test needs one that is too old: libcuda.so.1, as far as the
// CUDA runtime asks it for its version.
extern "C" {

int cuInit(unsigned) {
  return 0;
}

int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
}
