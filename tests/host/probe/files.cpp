#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/host/probe/parts.h"

namespace probe {
namespace {

int put(const std::string& value, char* text, std::size_t size) {
  std::snprintf(text, size, "%s", value.c_str());
  return static_cast<int>(value.size());
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN]{};
  const void* bytes = address->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return ::inet_ntop(address->sa_family, bytes, text, sizeof(text));
}

int interfaces(char* text, std::size_t size) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return -errno;
  std::string lines;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    lines += std::string(entry->ifa_name) + " " + address_text(entry->ifa_addr) + "/" +
             address_text(entry->ifa_netmask) + ((entry->ifa_flags & IFF_RUNNING) != 0U ? " running" : "") +
             ((entry->ifa_flags & IFF_LOOPBACK) != 0U ? " loopback" : "") + " " +
             std::to_string(::if_nametoindex(entry->ifa_name)) + "\n";
  }
  ::freeifaddrs(list);
  return put(lines, text, size);
}

int resolve(const char* host, const char* service, char* text, std::size_t size) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host, service, &hints, &list); error != 0) return error;
  const auto port = ntohs(reinterpret_cast<const sockaddr_in*>(list->ai_addr)->sin_port);
  put(address_text(list->ai_addr) + ":" + std::to_string(port), text, size);
  ::freeaddrinfo(list);
  return 0;
}

int read_file(const char* path, char* text, std::size_t size) {
  const int descriptor = ::open(path, O_RDONLY);
  if (descriptor < 0) return -errno;
  const ssize_t count = ::read(descriptor, text, size - 1);
  const int result = count >= 0 ? static_cast<int>(count) : -errno;
  if (count >= 0) text[count] = 0;
  ::close(descriptor);
  return result;
}

int read_stream(const char* path, char* text, std::size_t size) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return -1;
  return put(line, text, size);
}

int read_stdio(const char* path, char* text, std::size_t size) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return -errno;
  const bool read = std::fgets(text, static_cast<int>(size), file) != nullptr;
  const int result = read ? static_cast<int>(std::strlen(text)) : -errno;
  std::fclose(file);
  return result;
}

int list(const char* path, char* text, std::size_t size) {
  DIR* directory = ::opendir(path);
  if (directory == nullptr) return -errno;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  std::string all;
  for (const auto& name : names) all += name + " ";
  return put(all, text, size);
}

int real_path(const char* path, char* text, std::size_t size) {
  char resolved[PATH_MAX]{};
  if (::realpath(path, resolved) == nullptr) return -errno;
  put(resolved, text, size);
  return 0;
}

}  // namespace

void add_files(ProbeTable& table) {
  table.interfaces = &interfaces;
  table.resolve = &resolve;
  table.read_file = &read_file;
  table.read_stream = &read_stream;
  table.read_stdio = &read_stdio;
  table.list = &list;
  table.real_path = &real_path;
}

}  // namespace probe
