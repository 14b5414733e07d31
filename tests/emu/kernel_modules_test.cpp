// Which modules are loaded before which.
#include "emu/image/kernel_modules.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace kernel_modules_test {

using namespace meshbed::emu;
using namespace std::string_literals;

namespace {

const char* const kDependencies =
    "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/drivers/infiniband/core/ib_uverbs.ko "
    "kernel/net/ipv4/udp_tunnel.ko kernel/drivers/infiniband/core/ib_core.ko\n"
    "kernel/drivers/infiniband/core/ib_uverbs.ko: kernel/drivers/infiniband/core/ib_core.ko\n"
    "kernel/drivers/infiniband/core/ib_core.ko:\n"
    "kernel/net/ipv4/udp_tunnel.ko:\n"
    "# a comment\n"
    "kernel/crypto/crc32-generic.ko:\n";

using Paths = std::vector<std::string>;

/// The smallest ELF file with a .modinfo.
std::string module_file(const std::string& info) {
  const std::string names = "\0.modinfo\0.shstrtab\0"s;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + info.size() + names.size();
  Elf64_Shdr sections[3]{};
  sections[1].sh_name = 1;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = info.size();
  sections[2].sh_name = 10;
  sections[2].sh_offset = sizeof header + info.size();
  sections[2].sh_size = names.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  return file + info + names + std::string(reinterpret_cast<const char*>(sections), sizeof sections);
}

}  // namespace

TEST_CASE("a module comes after all that it needs, once, in the order in which they were wanted") {
  const KernelModules modules = KernelModules::from_dependency_text(kDependencies);
  CHECK(modules.load_order({"crc32_generic", "rdma_rxe"}) ==
        Paths{"kernel/crypto/crc32-generic.ko", "kernel/drivers/infiniband/core/ib_core.ko",
              "kernel/drivers/infiniband/core/ib_uverbs.ko", "kernel/net/ipv4/udp_tunnel.ko",
              "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"});
  CHECK(modules.load_order({"ib_core", "ib_core"}) == Paths{"kernel/drivers/infiniband/core/ib_core.ko"});
  CHECK(modules.load_order({}).empty());
}

TEST_CASE("what is written as modules.dep is read back to the same order") {
  const KernelModules modules = KernelModules::from_dependency_text(kDependencies);
  const Paths order = modules.load_order({"rdma_rxe"});
  CHECK(KernelModules::from_dependency_text(modules.dependency_text(order)).load_order({"rdma_rxe"}) ==
        Paths{"kernel/net/ipv4/udp_tunnel.ko", "kernel/drivers/infiniband/core/ib_core.ko",
              "kernel/drivers/infiniband/core/ib_uverbs.ko", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"});
}

TEST_CASE("a module that the kernel lacks is named with who needs it; built in is as good as there") {
  KernelModules modules = KernelModules::from_dependency_text("a.ko: b.ko\n");
  CHECK_THROWS_WITH_AS(modules.load_order({"a"}), "the kernel has no module b, which a needs", std::runtime_error);
  CHECK_THROWS_WITH_AS(modules.load_order({"c"}), "the kernel has no module c", std::runtime_error);
  modules.add_built_in("kernel/lib/b.ko");
  CHECK(modules.load_order({"a", "b"}) == Paths{"a.ko"});
}

TEST_CASE("modules that need each other, and lines that are none, are refused") {
  CHECK_THROWS_AS(KernelModules::from_dependency_text("a.ko: b.ko\nb.ko: a.ko\n").load_order({"a"}),
                  std::runtime_error);
  CHECK_THROWS_AS(KernelModules::from_dependency_text("a.ko b.ko\n"), std::runtime_error);
}

TEST_CASE("a module's own words give what it needs and what it is asked for as") {
  const ModuleInfo info =
      read_module_info(module_file("license=GPL\0alias=rdma-link-rxe\0depends=ib_core,udp-tunnel\0name=rdma_rxe\0"s));
  CHECK(info.depends == std::vector<std::string>{"ib_core", "udp_tunnel"});
  CHECK(info.aliases == std::vector<std::string>{"rdma-link-rxe"});
  KernelModules modules;
  modules.add("kernel/rdma_rxe.ko", info);
  CHECK(modules.alias_text({"kernel/rdma_rxe.ko"}) == "alias rdma-link-rxe rdma_rxe\n");
}

TEST_CASE("no file of any other kind, or cut off anywhere, is taken for a module") {
  const std::string whole = module_file("depends=\0"s);
  CHECK(read_module_info(whole).depends.empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_AS(read_module_info(std::string_view(whole).substr(0, size)), std::runtime_error);
  }
}

}  // namespace kernel_modules_test
