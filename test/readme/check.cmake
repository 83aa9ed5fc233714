# Every code block of the README stands in the file that the comment above it names, line by line
# but for the indentation, and what the README says that a program prints is what it prints: what
# people copy is what the tests compile and run.
cmake_minimum_required(VERSION 3.25)

file(READ README.md readme)
execute_process(COMMAND ${PLAN_A_CORPUS} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
string(FIND "${readme}" "```text\n${printed}```" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the README does not show what plan_a_corpus prints:\n${printed}")
endif()

# Cuts `text` at the first `mark`: `before` it, and `text` behind it.
macro(cut text mark before)
  string(FIND "${${text}}" "${mark}" position)
  string(SUBSTRING "${${text}}" 0 ${position} ${before})
  string(LENGTH "${mark}" length)
  math(EXPR position "${position} + ${length}")
  string(SUBSTRING "${${text}}" ${position} -1 ${text})
endmacro()

while(readme MATCHES "\n```c")  # cpp or cmake
  cut(readme "\n```c" before)
  cut(readme "\n" language)
  cut(readme "```" block)
  if(NOT before MATCHES "<!-- ([^ ]+) -->$")
    message(FATAL_ERROR "no file is named above the code block\n${block}")
  endif()
  set(file ${CMAKE_MATCH_1})
  file(READ ${file} code)
  string(REGEX REPLACE "(^|\n) +" "\\1" code "${code}")
  string(REGEX REPLACE "(^|\n) +" "\\1" block "${block}")
  string(FIND "${code}" "${block}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the README differs from ${file} in\n${block}")
  endif()
endwhile()
