# cmake -DNAME=NAME -DFROM=NAME.ptx -DTO=FILE.cpp -P embed_ptx.cmake: a kernel's PTX text as a function of C++,
# meshbed::cuda::NAME_ptx(), which whoever loads it declares.
file(READ ${FROM} text)
# Some compilers take string literals of 64 KiB and no more; those that this is built with take any.
file(WRITE ${TO} "namespace meshbed::cuda {\n\nconst char* ${NAME}_ptx();\n\nconst char* ${NAME}_ptx() {\n"
     "  return R\"ptx(${text})ptx\";\n}\n\n}  // namespace meshbed::cuda\n")
