# The contract tests: one file, which simulated ranks load as a copy each and a runner loads in emulated nodes.
set(here ${CMAKE_CURRENT_LIST_DIR})
meshbed_room(contract_objects PRODUCT FOLDERS suite)
product_library(contracts suite/contract.map PARTS contract_objects LINKS ${IBVERBS_LIBRARY})
add_executable(contract_runner ${here}/runner.cpp)
target_link_libraries(contract_runner PRIVATE ${CMAKE_DL_LIBS})
meshbed_test(contract SOURCES ${here}/*_test.cpp ${here}/*_world.cpp ${here}/table.cpp LINKS meshbed_sim meshbed_emu
             NEEDS contracts contract_runner ALONE COST 900)
