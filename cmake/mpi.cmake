# Training by several processes: a module that the program loads when a launcher has started it.
if(CROSSBOW_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  if(CROSSBOW_MPI STREQUAL "AUTO")
    find_package(MPI 3 QUIET COMPONENTS CXX)
  else()
    find_package(MPI 3 REQUIRED COMPONENTS CXX)
  endif()
endif()
if(CROSSBOW_MPI AND MPI_CXX_FOUND)
  message(STATUS "Several processes by MPI ${MPI_CXX_VERSION}")
  add_library(crossbow_mpi MODULE ${PROJECT_SOURCE_DIR}/src/comm/mpi/module.cpp)
  target_include_directories(crossbow_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(crossbow_mpi PRIVATE MPI::MPI_CXX)
  if(NOT CROSSBOW_SANITIZE)  # whose functions are in the program
    target_link_options(crossbow_mpi PRIVATE LINKER:-z,defs)  # one source, which needs nothing else of ours
  endif()
  add_dependencies(crossbow crossbow_mpi)
  set_target_properties(crossbow_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
    INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
endif()
