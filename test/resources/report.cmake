# Compiles, and writes what the compiler says of it to a file.
#   cmake -DCOMPILE=LIST -DREPORT=FILE -P report.cmake
execute_process(COMMAND ${COMPILE} OUTPUT_VARIABLE report ERROR_VARIABLE report
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${report}")
endif()
file(WRITE ${REPORT} "${report}")
