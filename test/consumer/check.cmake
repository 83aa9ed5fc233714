# Run in a consumer's build folder: it runs, and got nothing of ours but the library.
execute_process(COMMAND ./consumer COMMAND_ERROR_IS_FATAL ANY)

file(STRINGS CMakeCache.txt switched_on REGEX "^ADAPTIVELOAD_(BUILD_.*|INSTALL):BOOL=ON")
if(switched_on)
  message(FATAL_ERROR "on in somebody else's project: ${switched_on}")
endif()
file(GLOB_RECURSE objects RELATIVE ${CMAKE_CURRENT_BINARY_DIR} *.o)
list(FILTER objects EXCLUDE REGEX "CompilerId|CMakeScratch|CMakeTmp")
list(LENGTH objects count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "compiled more than the consumer: ${objects}")
endif()
