# cmake -DNAME=NAME -DFROM=NAME.ptx -DTO=FILE.cpp -P embed_ptx.cmake: a kernel's PTX text as a function of C++,
# meshbed::cuda::NAME_ptx(), which its callers declare.
file(READ ${FROM} text)
# Some compilers take string literals of 64 KiB and no more; those that this is built with take any. In a section of its
# own the text is after all other constants and not among them: the kernel maps pages by 64 KiB around one that is used,
# and a process without a GPU must have none of it in memory.
file(WRITE ${TO} "namespace meshbed::cuda {\n\nconst char* ${NAME}_ptx();\n\nnamespace {\n"
     "[[gnu::section(\".ptx\")]] const char text[] = R\"ptx(${text})ptx\";\n}  // namespace\n\n"
     "const char* ${NAME}_ptx() { return text; }\n\n}  // namespace meshbed::cuda\n")
