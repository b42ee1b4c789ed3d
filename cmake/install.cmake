# cmake --install: the library, its headers, the command, and what find_package(Crossbow) reads.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(crossbow_library INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Crossbow)
install(TARGETS crossbow_archive crossbow_library EXPORT CrossbowTargets)
install(EXPORT CrossbowTargets NAMESPACE crossbow:: DESTINATION ${package_folder})
install(DIRECTORY ${public_headers}/crossbow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/CrossbowConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/CrossbowConfig.cmake INSTALL_DESTINATION ${package_folder})
# Before 1.0 a new minor version may change what a program sees.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/CrossbowConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/CrossbowConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/CrossbowConfigVersion.cmake DESTINATION ${package_folder})
if(CROSSBOW_COMMAND)
  install(TARGETS crossbow)
  if(TARGET crossbow_mpi)
    install(TARGETS crossbow_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endif()
