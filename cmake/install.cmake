include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/adaptiveload)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS adaptiveload EXPORT adaptiveload)
install(
  EXPORT adaptiveload
  FILE adaptiveloadConfig.cmake
  NAMESPACE adaptiveload::
  DESTINATION ${package_dir})

write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/adaptiveloadConfigVersion.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/adaptiveloadConfigVersion.cmake DESTINATION ${package_dir})
