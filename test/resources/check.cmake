# Reads ptxas's report on kernels and fails if one keeps values in local memory: registers that it
# spills, or an array with indices that are not known at compile time.
#   cmake -DREPORT=FILE -P check.cmake
file(READ ${REPORT} report)
string(REPLACE ";" "," report "${report}")
string(REGEX MATCHALL "Compiling entry function '[^']*' for[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*" entries
       "${report}")
list(LENGTH entries count)
if(count EQUAL 0)
  message(FATAL_ERROR "no kernel in ${REPORT}:\n${report}")
endif()
set(in_memory 0)
set(most 0)
string(CONCAT figures "function '([^']*)'.* ([0-9]+) bytes stack frame, "
                      "([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads.* "
                      "([0-9]+) registers")
foreach(entry ${entries})
  if(NOT entry MATCHES "${figures}")
    message(FATAL_ERROR "not as ptxas reports a kernel:\n${entry}")
  endif()
  if(CMAKE_MATCH_5 GREATER most)
    set(most ${CMAKE_MATCH_5})
  endif()
  if(NOT "${CMAKE_MATCH_2} ${CMAKE_MATCH_3} ${CMAKE_MATCH_4}" STREQUAL "0 0 0")
    math(EXPR in_memory "${in_memory} + 1")
    message("${CMAKE_MATCH_1}: ${CMAKE_MATCH_2} bytes of stack, "
            "${CMAKE_MATCH_3} bytes of spills stored, ${CMAKE_MATCH_4} loaded")
  endif()
endforeach()
message("${count} kernels, at most ${most} registers a thread; ${in_memory} use local memory")
if(in_memory GREATER 0)
  message(FATAL_ERROR "kernels use local memory")
endif()
