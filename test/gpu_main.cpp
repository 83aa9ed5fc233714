#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

/// Skips every test on a machine without a CUDA device, and says why.
class skip_without_device : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) {
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);
    } else if (devices == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new skip_without_device);
  return RUN_ALL_TESTS();
}
