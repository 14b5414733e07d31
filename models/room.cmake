# Pure functions of values. The shipped profiles travel inside the program.
include(${CMAKE_CURRENT_LIST_DIR}/gpu.cmake)
meshbed_room(meshbed_models STATIC FOLDERS . lan EXCEPT ${gpu_sources} UNITY 24)
file(GLOB profiles CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/profiles/*.toml)
embedded_file(meshbed_models shipped_profiles profiles embed_folder.cmake DEPENDS ${profiles})
file(GLOB decodes CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/data/decode/*.toml)
embedded_file(meshbed_models shipped_decodes data/decode embed_folder.cmake DEPENDS ${decodes})
target_sources(meshbed_models PRIVATE $<TARGET_OBJECTS:gpu_model_objects>)
target_link_libraries(meshbed_models PUBLIC meshbed_base PRIVATE tomlplusplus::tomlplusplus)
target_compile_definitions(meshbed_models PRIVATE TOML_HEADER_ONLY=0)

# What calls cost on a machine; and the fits of that, for the commands that predict and judge.
meshbed_room(meshbed_times STATIC FOLDERS time UNITY 24)
# What left-out files were off, read where a prediction states its interval; toml++: as of the profiles.
file(GLOB intervals CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/intervals/*.toml)
embedded_file(meshbed_times shipped_intervals intervals embed_folder.cmake DEPENDS ${intervals})
target_link_libraries(meshbed_times PUBLIC meshbed_models PRIVATE tomlplusplus::tomlplusplus)
target_compile_definitions(meshbed_times PRIVATE TOML_HEADER_ONLY=0)
meshbed_room(meshbed_fits STATIC FOLDERS fit UNITY 24)
target_link_libraries(meshbed_fits PUBLIC meshbed_times)
