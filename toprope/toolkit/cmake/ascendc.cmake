# The name by which older projects include the functions for kernels in libraries.
include("${CMAKE_CURRENT_LIST_DIR}/functions.cmake")
