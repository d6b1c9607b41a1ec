# The compiler of the language ASC: the toolkit's own command.
get_filename_component(_toolkit "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
if(NOT CMAKE_ASC_COMPILER)
  set(CMAKE_ASC_COMPILER "${_toolkit}/bin/bisheng" CACHE FILEPATH "ASC compiler")
endif()
set(CMAKE_ASC_COMPILER_ENV_VAR "ASC")
include(CMakeFindBinUtils)
configure_file("${CMAKE_CURRENT_LIST_DIR}/CMakeASCCompiler.cmake.in" "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake" @ONLY)
