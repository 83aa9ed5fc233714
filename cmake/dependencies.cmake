# What our own tests, benchmarks and examples use; the library itself needs nothing. Each is
# declared here and made available where it is used, by FetchContent_MakeAvailable(NAME): the
# installed package if there is one, else the pinned source.
include(FetchContent)

function(adaptiveload_declare name url sha256)
  FetchContent_Declare(
    ${name} SYSTEM
    URL ${url}
    URL_HASH SHA256=${sha256}
    DOWNLOAD_EXTRACT_TIMESTAMP OFF
    FIND_PACKAGE_ARGS ${ARGN})
endfunction()

adaptiveload_declare(
  GTest https://github.com/google/googletest/archive/release-1.12.1.tar.gz
  81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
adaptiveload_declare(
  benchmark https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
  6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7)
adaptiveload_declare(
  Eigen3 https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
  b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626)
adaptiveload_declare(
  CLI11 https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
  f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
adaptiveload_declare(
  nlohmann_json https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
  42f6e95cad6ec532fd372391373363b62a14af6d771056dbfc86160e6dfff7aa)
adaptiveload_declare(
  Boost https://github.com/boostorg/boost/releases/download/boost-1.84.0/boost-1.84.0.tar.xz
  2e64e5d79a738d0fa6fb546c6e5c2bd28f88d268a2a080546f74e5ff98f29d0e COMPONENTS context)
FetchContent_Declare(
  rapidcheck SYSTEM
  GIT_REPOSITORY https://github.com/emil-e/rapidcheck.git
  GIT_TAG ff6af6fc683159deb51c543b065eba14dfcf329b
  GIT_SUBMODULES ""
  FIND_PACKAGE_ARGS)

# For those that are built from source: their libraries and nothing else of them.
set(INSTALL_GTEST OFF)
set(BUILD_GMOCK OFF)
set(BENCHMARK_ENABLE_TESTING OFF)
set(BENCHMARK_ENABLE_INSTALL OFF)
set(EIGEN_BUILD_DOC OFF)
set(BUILD_TESTING OFF)
set(EIGEN_BUILD_PKGCONFIG OFF)
set(BOOST_INCLUDE_LIBRARIES context)
# Some of these name a CMake older than CMake 4 accepts.
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
