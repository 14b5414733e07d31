#include "sim/host/file/file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

std::string describe_file(std::uint64_t object) { return reinterpret_cast<const File*>(object)->describe(); }

}  // namespace

Attempted File::try_read(void*, std::size_t, bool) { return -EINVAL; }
Attempted File::try_write(const void*, std::size_t) { return -EINVAL; }
off_t File::seek(off_t, int) { return -ESPIPE; }

void File::stat(struct stat& result) const {
  result = {};
  result.st_mode = S_IFSOCK | 0600;
  result.st_nlink = 1;
}

void File::notify() {
  wake_all(watchers);
  World::get().signal(process);
}

int DescriptorTable::add(std::shared_ptr<File> file, bool close_on_exec) {
  int descriptor = kFirstDescriptor;
  for (const auto& [number, entry] : entries_) {
    if (number != descriptor) break;
    ++descriptor;
  }
  entries_[descriptor] = {std::move(file), close_on_exec};
  HostCounters& counters = host().counters;
  counters.peak_descriptors = std::max(counters.peak_descriptors, ++counters.open_descriptors);
  return descriptor;
}

std::shared_ptr<File> DescriptorTable::find(int descriptor) const {
  const auto found = entries_.find(descriptor);
  return found != entries_.end() ? found->second.file : nullptr;
}

bool DescriptorTable::close(int descriptor) {
  const auto found = entries_.find(descriptor);
  if (found == entries_.end()) return false;
  // The file goes after its entry: its destructor may look at the table through an event.
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  --host().counters.open_descriptors;
  return true;
}

std::vector<int> DescriptorTable::open_between(unsigned first, unsigned last) const {
  std::vector<int> numbers;
  for (const auto& [number, entry] : entries_) {
    const auto place = static_cast<unsigned>(number);
    if (place >= first && place <= last) numbers.push_back(number);
  }
  return numbers;
}

void DescriptorTable::replace(int descriptor, std::shared_ptr<File> file) {
  // What was there goes after the change: its destructor may look at the table through an event.
  entries_.at(descriptor).file.swap(file);
}

bool DescriptorTable::close_on_exec(int descriptor) const { return entries_.at(descriptor).close_on_exec; }

void DescriptorTable::set_close_on_exec(int descriptor, bool value) { entries_.at(descriptor).close_on_exec = value; }

int fail(int code) {
  errno = code;
  return -1;
}

ssize_t answer(Attempted result) { return result >= 0 ? result : fail(static_cast<int>(-result)); }

WaitNote note_of(const char* what, const File& file) {
  return {.what = what, .object = reinterpret_cast<std::uint64_t>(&file), .describe = &describe_file};
}

int make_event_descriptor(Process& process) {
  return state_of(process).descriptors.add(std::make_shared<EventFile>(process), true);
}

void set_readable(Process& process, int descriptor, bool readable) {
  const auto file = std::dynamic_pointer_cast<EventFile>(state_of(process).descriptors.find(descriptor));
  if (file == nullptr) return;
  const bool rises = readable && !file->readable;
  file->readable = readable;
  if (rises) file->notify();
}

bool is_nonblocking(Process& process, int descriptor) {
  const auto file = state_of(process).descriptors.find(descriptor);
  return file != nullptr && file->nonblocking;
}

void close_descriptor(Process& process, int descriptor) { state_of(process).descriptors.close(descriptor); }

}  // namespace meshbed::sim
