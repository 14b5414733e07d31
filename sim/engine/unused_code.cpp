#include "sim/engine/unused_code.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshbed::sim {

void let_go_of_unused_code() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        if (std::string_view(info->dlpi_name).find("/libns3-") == std::string_view::npos) return 0;
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        for (int index = 0; index < info->dlpi_phnum; ++index) {
          const auto& segment = info->dlpi_phdr[index];
          // What was written to, as relocations are, would be lost.
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || (segment.p_flags & PF_W) != 0) continue;
          const std::uintptr_t begin = (info->dlpi_addr + segment.p_vaddr) / page * page;
          const std::uintptr_t end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
          ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
        }
        return 0;
      },
      nullptr);
}

}  // namespace meshbed::sim
