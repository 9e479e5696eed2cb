# Flags every target of ours shares, and the function that declares a layer.
include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# Libraries live in a folder of their own: they stand in for system libraries
# only for a program that `verbatim run` points at them.
set(VERBATIM_LIBDIR lib/verbatim)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${VERBATIM_LIBDIR})
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(verbatim_flags INTERFACE)
target_include_directories(verbatim_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(verbatim_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -fno-strict-aliasing
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wno-interference-size>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(verbatim_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-warning-option>)
endif()
target_compile_definitions(verbatim_flags INTERFACE _GNU_SOURCE)
target_link_libraries(verbatim_flags INTERFACE Threads::Threads)

if(VERBATIM_SANITIZER STREQUAL "address")
  # enum: a C program may put any number into an enum that it hands us. function: C calls us by C's types.
  set(sanitize -fsanitize=address,undefined -fno-sanitize=enum -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
elseif(VERBATIM_SANITIZER STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(VERBATIM_SANITIZER)
  message(FATAL_ERROR "VERBATIM_SANITIZER is '${VERBATIM_SANITIZER}', not address or thread")
endif()
if(VERBATIM_FUZZ)
  list(APPEND sanitize -fsanitize=fuzzer-no-link)
endif()
if(VERBATIM_SANITIZER)
  target_compile_options(verbatim_flags INTERFACE ${sanitize})
  target_link_options(verbatim_flags INTERFACE ${sanitize})
endif()

# A library is optimised across its layers when it is linked. Programs, of which the tests have a hundred, are not: the
# objects hold plain code too.
add_library(verbatim_link_time INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT VERBATIM_SANITIZER)
  # Not C: what gives symbols their versions is assembly, which must stay in one object with them.
  target_compile_options(verbatim_link_time INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-flto=auto> $<$<COMPILE_LANGUAGE:CXX>:-ffat-lto-objects>)
  target_link_options(verbatim_flags INTERFACE
    $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,-fno-lto,-flto=auto>)
endif()

# verbatim_precompile(target header [library...]): a precompiled header that targets with the same flags reuse.
function(verbatim_precompile target header)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc CONTENT "")
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cc)
  target_link_libraries(${target} PRIVATE verbatim_flags ${ARGN})
  target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/${header}>)
endfunction()

verbatim_precompile(verbatim_precompiled precompiled.h verbatim_link_time)
if(VERBATIM_TESTS)
  find_package(GTest REQUIRED)
  verbatim_precompile(verbatim_precompiled_test precompiled_test.h GTest::gmock)
endif()

# verbatim_layer(name [THREADS] [DEPENDS layer...]): a static library verbatim_<name> of
# every source in the current folder that is not a test, and, where there are
# x_test.cc beside them, the test program <name>_test. DEPENDS is the layer
# table of docs/ARCHITECTURE.md; scripts/check_layers.py holds #includes to it.
# THREADS: its tests start threads, so the ThreadSanitizer run takes them. TEST_DEPENDS: what only its tests use.
function(verbatim_layer name)
  cmake_parse_arguments(arg "THREADS" "" "DEPENDS;TEST_DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc *.S)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  file(GLOB mains CONFIGURE_DEPENDS *_main.cc)
  list(REMOVE_ITEM sources "" ${tests} ${mains})
  list(TRANSFORM arg_DEPENDS PREPEND verbatim_)
  list(TRANSFORM arg_TEST_DEPENDS PREPEND verbatim_)
  if(sources)
    add_library(verbatim_${name} STATIC ${sources})
    target_link_libraries(verbatim_${name} PUBLIC verbatim_flags ${arg_DEPENDS} PRIVATE verbatim_link_time)
    target_precompile_headers(verbatim_${name} REUSE_FROM verbatim_precompiled)
  else()
    add_library(verbatim_${name} INTERFACE)
    target_link_libraries(verbatim_${name} INTERFACE verbatim_flags ${arg_DEPENDS})
  endif()
  if(tests AND VERBATIM_TESTS)
    set(labels)
    if(arg_THREADS)
      set(labels LABELS threads)
    endif()
    verbatim_test(${name}_test SOURCES ${tests} LIBRARIES verbatim_${name} ${arg_TEST_DEPENDS} ${labels})
  endif()
endfunction()

# verbatim_test(name SOURCES... LIBRARIES... [LABELS...] [TIMEOUT seconds]): a GoogleTest program. Under
# the ThreadSanitizer only those are built whose label says that they start threads.
function(verbatim_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  include(GoogleTest)
  add_executable(${name} ${arg_SOURCES})
  target_precompile_headers(${name} REUSE_FROM verbatim_precompiled_test)
  # The precompiled header was made for a library: an executable's -fpie would not fit it.
  target_compile_options(${name} PRIVATE -fPIC)
  target_link_libraries(${name} PRIVATE verbatim_flags ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(VERBATIM_SANITIZER STREQUAL "thread" AND NOT "threads" IN_LIST arg_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
endfunction()
