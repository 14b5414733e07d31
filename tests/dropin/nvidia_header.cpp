// NVIDIA's own header, where it is installed.
#include <nccl.h>

#include <string>

#include "tests/dropin/header_facts.inc"

std::string nvidia_header_facts() { return header_facts(); }
