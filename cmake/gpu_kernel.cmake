# Kernels for GPUs: gpu_kernel(TARGET FOLDER/NAME.cu) makes FOLDER/NAME.ptx, which is kept beside its source, part of
# the target, as meshbed::cuda::NAME_ptx() (plugin/cuda/embed_ptx.cmake). So no build needs the toolkit. Where it is
# installed, what it makes of the source is compared with what is kept (tests/cuda/kept_ptx_test.cpp), and translated
# for each generation of machines; `cmake --build build --target keep_gpu_kernels` keeps it.
file(GLOB cuda_tools /usr/local/cuda*/bin)
find_program(NVCC nvcc HINTS ${cuda_tools})
find_program(PTXAS ptxas HINTS ${cuda_tools})
set(gpu_machines 80 90 100 121)
set(gpu_kernel_list ${CMAKE_BINARY_DIR}/generated/gpu_kernels.txt)  # a line each: kept text, text made now
file(WRITE ${gpu_kernel_list} "")
add_custom_target(gpu_kernels)
add_custom_target(keep_gpu_kernels)
function(gpu_kernel target source)
  get_filename_component(name ${source} NAME_WE)
  meshbed_files(source ${source})
  get_filename_component(folder ${source} DIRECTORY)
  set(kept ${folder}/${name}.ptx)
  set(embedded ${CMAKE_BINARY_DIR}/generated/${name}_ptx.cpp)
  set(script ${CMAKE_SOURCE_DIR}/plugin/cuda/embed_ptx.cmake)
  add_custom_command(OUTPUT ${embedded} DEPENDS ${kept} ${script} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DFROM=${kept} -DTO=${embedded} -P ${script})
  target_sources(${target} PRIVATE ${embedded})
  set_source_files_properties(${embedded} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(NOT NVCC OR NOT PTXAS)
    file(APPEND ${gpu_kernel_list} "${kept}\n")
    return()
  endif()
  set(made ${CMAKE_BINARY_DIR}/ptx/${name}.ptx)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/ptx)
  # As the product's C++: no fused multiply-add that the source does not ask for.
  add_custom_command(OUTPUT ${made} DEPENDS ${source} DEPFILE ${made}.d VERBATIM
                     COMMAND ${NVCC} -ptx -arch=compute_80 -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr
                             -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/plugin/ring/include -MD -MT ${made} -MF ${made}.d -o ${made} ${source})
  set(binaries "")
  foreach(machine ${gpu_machines})
    set(binary ${CMAKE_BINARY_DIR}/ptx/${name}.sm_${machine}.cubin)
    add_custom_command(OUTPUT ${binary} DEPENDS ${made} VERBATIM
                       COMMAND ${PTXAS} --gpu-name sm_${machine} -o ${binary} ${made})
    list(APPEND binaries ${binary})
  endforeach()
  add_custom_target(${name}_gpu_kernel DEPENDS ${made} ${binaries})
  add_custom_target(keep_${name} COMMAND ${CMAKE_COMMAND} -E copy_if_different ${made} ${kept} DEPENDS ${made})
  add_dependencies(gpu_kernels ${name}_gpu_kernel)
  add_dependencies(keep_gpu_kernels keep_${name})
  file(APPEND ${gpu_kernel_list} "${kept} ${made}\n")
endfunction()
