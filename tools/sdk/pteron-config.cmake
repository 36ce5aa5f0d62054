# find_package(pteron) defines the target pteron::pteron: headers and libpteron.so, for C and C++17.
# libpteron.so opens the libraries of backends in its own folder when a program needs them.

get_filename_component(PTERON_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(pteron_FOUND FALSE)
  set(pteron_NOT_FOUND_MESSAGE
      "this package is for Linux on x86-64, and the target is ${CMAKE_SYSTEM_NAME}")
  return()
endif()

if(NOT TARGET pteron::pteron)
  add_library(pteron::pteron SHARED IMPORTED)
  set_target_properties(
    pteron::pteron
    PROPERTIES IMPORTED_LOCATION "${PTERON_PREFIX}/lib/libpteron.so"
               IMPORTED_SONAME "libpteron.so"
               INTERFACE_INCLUDE_DIRECTORIES "${PTERON_PREFIX}/include")
  get_property(pteron_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CXX" IN_LIST pteron_languages)
    set_target_properties(pteron::pteron PROPERTIES INTERFACE_COMPILE_FEATURES cxx_std_17)
  endif()
endif()
