# verbatim_versioned_library(target
#   OUTPUT_NAME ibverbs      the file is lib<OUTPUT_NAME>.so.<SOVERSION>
#   SOVERSION 1
#   TABLE symbols.tsv        what it exports (docs/ABI.md)
#   SOURCES file...
#   LIBRARIES target...)
#
# A drop-in shared library: it exports what TABLE lists, at the version nodes
# that stand there, and nothing else. A C function the table calls `implemented`
# must be compiled from SOURCES: what comes out of a static library of ours
# stays hidden, as does every C++ symbol.
function(verbatim_versioned_library target)
  cmake_parse_arguments(arg "" "OUTPUT_NAME;SOVERSION;TABLE" "SOURCES;LIBRARIES" ${ARGN})
  foreach(needed OUTPUT_NAME SOVERSION TABLE SOURCES)
    if(NOT DEFINED arg_${needed})
      message(FATAL_ERROR "verbatim_versioned_library(${target}): ${needed} is missing")
    endif()
  endforeach()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)

  cmake_path(ABSOLUTE_PATH arg_TABLE OUTPUT_VARIABLE table)
  set(generator ${PROJECT_SOURCE_DIR}/scripts/generate_abi.py)
  set(outdir ${CMAKE_CURRENT_BINARY_DIR}/${target}_abi)
  set(map ${outdir}/lib${arg_OUTPUT_NAME}.map)
  set(refusals ${outdir}/refusals.c)
  add_custom_command(OUTPUT ${map} ${refusals}
    COMMAND Python3::Interpreter ${generator} ${table} ${outdir} --library lib${arg_OUTPUT_NAME}
    DEPENDS ${generator} ${table}
    COMMENT "Generating the ABI of lib${arg_OUTPUT_NAME}.so.${arg_SOVERSION}"
    VERBATIM)

  add_library(${target} SHARED ${arg_SOURCES} ${refusals} ${map})
  target_link_libraries(${target} PRIVATE verbatim_flags verbatim_link_time ${arg_LIBRARIES})
  target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/precompiled.h>)
  # The version script decides what is exported, so the C API needs no mark at each function.
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${arg_OUTPUT_NAME}
    SOVERSION ${arg_SOVERSION}
    LINKER_LANGUAGE CXX
    C_VISIBILITY_PRESET default
    CXX_VISIBILITY_PRESET default
    LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${map}
    LINKER:--exclude-libs,ALL
    # A program that dlcloses us must not take the code from under our thread.
    LINKER:-z,nodelete LINKER:-z,relro LINKER:-z,now)
  if(NOT VERBATIM_SANITIZER)
    # A sanitizer's symbols are the program's to define, and it needs the one C++ runtime of the process.
    target_link_options(${target} PRIVATE LINKER:--no-undefined LINKER:--as-needed -static-libstdc++ -static-libgcc)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${VERBATIM_LIBDIR} NAMELINK_SKIP)
endfunction()
