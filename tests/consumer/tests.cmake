# A project outside the tree uses the library: once as cmake --install leaves it, once as a
# subdirectory of its own. The second builds all of it again, from the compiler's cache, so with the
# same options.
foreach(way install subdirectory)
  add_test(NAME Consumer.${way} COMMAND ${CMAKE_COMMAND}
    -D WAY=${way} -D CROSSBOW_SOURCE=${PROJECT_SOURCE_DIR} -D CROSSBOW_BUILD=${PROJECT_BINARY_DIR}
    -D FOLDER=${CMAKE_CURRENT_BINARY_DIR}/consumer/${way}
    -D "OPTIONS=-G;${CMAKE_GENERATOR};-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}\
;-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE};-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}\
;-DCMAKE_COMPILE_WARNING_AS_ERROR=${CMAKE_COMPILE_WARNING_AS_ERROR}\
;-DBUILD_SHARED_LIBS=${BUILD_SHARED_LIBS};-DCMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/run.cmake)
  set_tests_properties(Consumer.${way} PROPERTIES TIMEOUT 3600 RUN_SERIAL ON)
endforeach()
