# Configures, builds and runs the project beside this file in FOLDER, with the OPTIONS of the build
# that is tested. WAY: against an installed Crossbow, or with its sources as a subdirectory.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER}/prefix ${FOLDER}/build/CMakeCache.txt)
if(WAY STREQUAL "install")
  run(${CMAKE_COMMAND} --install ${CROSSBOW_BUILD} --prefix ${FOLDER}/prefix)
  list(APPEND OPTIONS -DCrossbow_ROOT=${FOLDER}/prefix)
else()
  list(APPEND OPTIONS -DCROSSBOW_SOURCE=${CROSSBOW_SOURCE} -DCROSSBOW_CUDA=OFF)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${FOLDER}/build ${OPTIONS})
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
run(${FOLDER}/build/consumer)
