# `cpack -G DEB` in the build folder: a Debian package of what `cmake --install` installs. It needs the C library and
# nothing else, and works from wherever it is unpacked; the system's own libraries stay as they are.
# Packs what is built, without building it first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME verbatim)
set(CPACK_PACKAGE_VENDOR "The Verbatim authors")
set(CPACK_PACKAGE_CONTACT "The Verbatim authors <verbatim@verbatim.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "RDMA NIC in user space")
set(CPACK_PACKAGE_DESCRIPTION "Runs unmodified programs that use libibverbs on a machine without an RDMA NIC:
no kernel module, no root, no service. `verbatim run -- PROGRAM` is all there is to it.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
# What the binaries were linked to says which C library is new enough.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
