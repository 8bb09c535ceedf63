# Builds a TensorRT plugin library around the tensoracle launcher.
#
#   tensoracle_add_cubin_plugin(<target>
#     BUNDLE <directory>                # as the producer writes it
#     SOURCES <file>...                 # the author's plugins, which include <tensoracle/plugin.hpp>
#     [OUTPUT_NAME <name>]              # of lib<name>.so; the target's name if left out
#     [INCLUDE_DIRECTORIES <directory>...]
#     [COMPILE_DEFINITIONS <definition>...])
#
# Beside <target> there is <target>_launcher, which options of your own that change the ABI, such as sanitizers, must reach too.
#
# The library exports getCreators and setLoggerFinder and nothing else. It needs no TensorRT and no CUDA to be built or
# linked. The same sources give the same bytes in any directory.
#
# TENSORRT_INCLUDE_DIR, if set, has NvInferRuntime.h; it is used in place of the launcher's own declarations. The CUDA
# headers that it includes must be found too (INCLUDE_DIRECTORIES).

include_guard(GLOBAL)

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH _tensoracle_directory)
set_property(GLOBAL PROPERTY TENSORACLE_DIRECTORY "${_tensoracle_directory}")
unset(_tensoracle_directory)

function(tensoracle_add_cubin_plugin target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BUNDLE;OUTPUT_NAME" "SOURCES;INCLUDE_DIRECTORIES;COMPILE_DEFINITIONS")
  _tensoracle_check_arguments()
  get_property(launcher GLOBAL PROPERTY TENSORACLE_DIRECTORY)
  cmake_path(ABSOLUTE_PATH arg_BUNDLE NORMALIZE OUTPUT_VARIABLE bundle)

  _tensoracle_glob(launcher_sources "${launcher}/src" "*.cpp")
  # In the order of their names, in which the cubins follow each other.
  _tensoracle_glob(bundle_sources "${bundle}" "*.cpp")
  # One translation unit for the whole launcher: most of what compiling it costs is the standard library's headers.
  add_library(${target}_launcher OBJECT ${launcher_sources})
  set_target_properties(${target}_launcher PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_compile_options(${target}_launcher PRIVATE -Wall -Wextra)
  _tensoracle_compile(${target}_launcher)

  add_library(${target} SHARED ${arg_SOURCES} $<TARGET_OBJECTS:${target}_launcher> ${bundle_sources})
  set_target_properties(${target} PROPERTIES
    PREFIX "lib"
    LINK_DEPENDS "${launcher}/cmake/exports.map")
  if(arg_OUTPUT_NAME)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME "${arg_OUTPUT_NAME}")
  endif()
  _tensoracle_compile(${target})

  # They name what they embed relative to themselves, for the assembler to read. bundle.json has digests of all of it.
  set_source_files_properties(${bundle_sources} PROPERTIES
    COMPILE_OPTIONS "-Xassembler;-I${bundle}"  # -Wa would split a path with a comma
    OBJECT_DEPENDS "${bundle}/bundle.json")

  # The version script hides what visibility leaves: the standard library's templates.
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${launcher}/cmake/exports.map"
    "LINKER:--exclude-libs,ALL"
    "LINKER:--no-undefined"
    "LINKER:--as-needed"
    "LINKER:-z,relro,-z,now"
    # Code stays loaded in the driver until the process ends, and so do the records of it.
    "LINKER:-z,nodelete")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})

  # By the build id getTimingCacheID tells libraries apart that launch the same kernels otherwise. It is taken over the
  # object files: for one of its own the linker reads the whole library into memory.
  set(build_id "${CMAKE_CURRENT_BINARY_DIR}/${target}_build_id.txt")
  add_custom_command(TARGET ${target} PRE_LINK
    COMMAND "${CMAKE_COMMAND}" "-DOBJECTS=$<TARGET_OBJECTS:${target}>;$<TARGET_OBJECTS:${target}_launcher>"
      "-DOUTPUT=${build_id}" -P "${launcher}/cmake/build_id.cmake"
    VERBATIM)
  target_link_options(${target} PRIVATE "@${build_id}")
endfunction()

# How launcher, plugins and bundle are compiled; for tensoracle_add_cubin_plugin, whose variables it reads.
function(_tensoracle_compile name)
  set_target_properties(${name} PROPERTIES
    CXX_STANDARD 17
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PRIVATE "${launcher}/include" ${arg_INCLUDE_DIRECTORIES})
  target_compile_definitions(${name} PRIVATE ${arg_COMPILE_DEFINITIONS})
  if(TENSORRT_INCLUDE_DIR)
    target_compile_definitions(${name} PRIVATE TENSORACLE_OFFICIAL_HEADERS)
    target_include_directories(${name} SYSTEM PRIVATE "${TENSORRT_INCLUDE_DIR}")
  endif()
  target_compile_options(${name} PRIVATE
    "$<$<NOT:$<CONFIG:Debug>>:-O2>"
    # Statics of inline functions would otherwise be shared with other libraries that have the same launcher.
    "$<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>")
  _tensoracle_make_reproducible(${name})
endfunction()

# What keeps the bytes the same in any directory. Beside it: sources follow each other in the author's order, the
# launcher's and the bundle's in that of their names; the hook gives compilers a fixed date (cmake.py); hatchling orders
# a wheel's files, and sets their dates and permissions.
function(_tensoracle_make_reproducible name)
  target_compile_options(${name} PRIVATE
    "-ffile-prefix-map=${launcher}=tensoracle"
    "-ffile-prefix-map=${bundle}=bundle"
    "-ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=."
    "-ffile-prefix-map=${CMAKE_CURRENT_BINARY_DIR}=.")
  set_target_properties(${name} PROPERTIES SKIP_BUILD_RPATH ON INSTALL_RPATH "")
endfunction()

# Files of a directory in the order of their names; relative to this project's directory where they lie below it.
function(_tensoracle_glob variable directory pattern)
  string(REGEX REPLACE "[[*?]" "[\\0]" escaped "${directory}")
  file(GLOB found RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS "${escaped}/${pattern}")
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

macro(_tensoracle_check_arguments)
  set(_tensoracle_errors "")
  if(arg_UNPARSED_ARGUMENTS)
    list(APPEND _tensoracle_errors "unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    list(APPEND _tensoracle_errors "no value is given for ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(TARGET ${target})
    list(APPEND _tensoracle_errors "there is a target of this name already")
  endif()
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND _tensoracle_errors
      "the system is ${CMAKE_SYSTEM_NAME} on ${CMAKE_SYSTEM_PROCESSOR}; libraries are built for Linux on x86_64")
  endif()
  if(NOT CMAKE_CXX_COMPILER_LOADED)
    list(APPEND _tensoracle_errors "C++ is not enabled: add CXX to project(... LANGUAGES ...)")
  endif()
  if(NOT DEFINED arg_BUNDLE)
    list(APPEND _tensoracle_errors "BUNDLE is missing: name the directory that the producer wrote")
  else()
    foreach(_tensoracle_file IN ITEMS bundle.cpp bundle.json)
      cmake_path(ABSOLUTE_PATH arg_BUNDLE NORMALIZE OUTPUT_VARIABLE _tensoracle_path)
      if(NOT EXISTS "${_tensoracle_path}/${_tensoracle_file}")
        list(APPEND _tensoracle_errors "BUNDLE ${_tensoracle_path} has no ${_tensoracle_file}")
      endif()
    endforeach()
  endif()
  if(NOT arg_SOURCES)
    list(APPEND _tensoracle_errors "SOURCES is missing: name at least one source file")
  endif()
  foreach(_tensoracle_file IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH _tensoracle_file NORMALIZE OUTPUT_VARIABLE _tensoracle_path)
    get_source_file_property(_tensoracle_is_generated "${_tensoracle_file}" GENERATED)
    if(NOT _tensoracle_is_generated AND NOT EXISTS "${_tensoracle_path}")
      list(APPEND _tensoracle_errors "source file ${_tensoracle_path} does not exist")
    endif()
  endforeach()
  if(TENSORRT_INCLUDE_DIR AND NOT EXISTS "${TENSORRT_INCLUDE_DIR}/NvInferRuntime.h")
    list(APPEND _tensoracle_errors "TENSORRT_INCLUDE_DIR ${TENSORRT_INCLUDE_DIR} has no NvInferRuntime.h")
  endif()
  if(_tensoracle_errors)
    list(JOIN _tensoracle_errors "\n  " _tensoracle_errors)
    message(FATAL_ERROR "tensoracle_add_cubin_plugin(${target}):\n  ${_tensoracle_errors}")
  endif()
endmacro()
