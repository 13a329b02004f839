# Run as a script: a correct edge configures, a wrong one stops with its name. Variables: SOURCE (the repository), WORK.
file(REMOVE_RECURSE "${WORK}")
function(configure_with deps out_ok out_text)
  file(WRITE "${WORK}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)\nproject(edges NONE)\n"
    "include(\"${SOURCE}/cmake/ms_library.cmake\")\n"
    "ms_library(NAME base LAYER 0)\nms_library(NAME obs LAYER 1 DEPS base)\nms_library(NAME io LAYER 2 ${deps})\n"
    "ms_library(NAME ir LAYER 2 DEPS base)\n")
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${WORK}" -B "${WORK}/build" RESULT_VARIABLE code
    OUTPUT_QUIET ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(${out_text} "${text}" PARENT_SCOPE)
  if(code EQUAL 0)
    set(${out_ok} TRUE PARENT_SCOPE)
  else()
    set(${out_ok} FALSE PARENT_SCOPE)
  endif()
endfunction()

configure_with("DEPS base obs" ok text)
if(NOT ok)
  message(FATAL_ERROR "a correct edge was refused: ${text}")
endif()
foreach(case "DEPS ir|edge io \\(layer 2\\) -> ir \\(layer 2\\) is not allowed" "DEPS cli|edge io \\(layer 2\\) -> cli \\(layer 10\\)"
    "DEPS bse|no folder mainspring/bse")
  string(REPLACE "|" ";" parts "${case}")
  list(GET parts 0 deps)
  list(GET parts 1 wanted)
  configure_with("${deps}" ok text)
  if(ok OR NOT text MATCHES "${wanted}")
    message(FATAL_ERROR "'${deps}' should stop with '${wanted}', got: ${text}")
  endif()
endforeach()
