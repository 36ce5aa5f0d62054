# A program that asks for 0.2 takes 0.2.0 and later versions 0.2.x: before 1.0, a minor version may
# change the API.
set(PACKAGE_VERSION "@VERSION@")

string(REGEX MATCH "^[0-9]+\\.[0-9]+" pteron_has "${PACKAGE_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" pteron_asked "${PACKAGE_FIND_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(NOT pteron_asked OR pteron_asked VERSION_EQUAL pteron_has)
  if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
endif()
