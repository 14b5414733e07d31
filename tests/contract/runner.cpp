// The runner in an emulated node: contract_runner LIBRARY RANK MEETING_ADDRESS STRIDE
//
// Runs every STRIDEth contract of the library, the first among them, each in a process of its own with a time limit of
// its own, and writes what they record to the folder that it was started in.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/contract/runner_files.h"
#include "tests/contract/suite/contract.h"
#include "tests/contract/suite/patience.h"
#include "tests/contract/suite/record.h"

namespace {

using namespace meshbed::contract;

// By the guest's clock, which may run fast on a busy host. A hang is the failure of its own contract only: the peer
// waits longer for the next one.
constexpr unsigned kContractLimit_s = 90;
static_assert(kMeetingPatience_ms > 1000 * static_cast<int>(kContractLimit_s));
constexpr int kFirstPort = 20'000;

int g_record = -1;

void write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(g_record, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::perror("contract_runner: the record cannot be written");
    ::_exit(2);
  }
}

void record(void*, const char* line) { write_line(line); }

struct LinkRequest {
  int number = 0;
  int up = 1;
};

LinkRequest last_request() {
  LinkRequest last;
  std::ifstream(kLinkRequest) >> last.number >> last.up;
  return last;
}

bool served(int number) {
  int last = 0;
  std::ifstream(kLinkServed) >> last;
  return last >= number;
}

/// Asks the host, and waits until it has done so.
void set_link(void*, int up) {
  const int number = last_request().number + 1;
  const std::string fresh = std::string(kLinkRequest) + ".new";
  std::ofstream(fresh) << number << " " << up << "\n";
  if (std::rename(fresh.c_str(), kLinkRequest) != 0) std::perror("contract_runner: the host cannot be asked");
  if (!wait_for(kPatience_ms, [number] { return served(number); })) {
    write_line(std::string(1, kBrokenLine) + "\tthe host does not touch the cable");
  }
}

void run_one(int index, const ContractPlace& place, decltype(&contract_run) run) {
  write_line(kBeginsLine + std::to_string(index));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kContractLimit_s);
    ::_exit(run(index, &place));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const bool late = WTERMSIG(status) == SIGALRM;
    write_line(std::string(1, kBrokenLine) + "\t" +
               (late ? "no end after " + std::to_string(kContractLimit_s) + " s" : strsignal(WTERMSIG(status))));
  }
  if (last_request().up == 0) set_link(nullptr, 1);  // it broke on the way; the next one needs the cable
  write_line(kEndsLine);
}

}  // namespace

int main(int argc, char** argv) {
  const int stride = argc == 5 ? std::atoi(argv[4]) : 0;
  if (stride < 1) {
    std::fprintf(stderr, "usage: contract_runner LIBRARY RANK MEETING_ADDRESS STRIDE\n");
    return 2;
  }
  void* library = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "contract_runner: %s\n", ::dlerror());
    return 2;
  }
  const auto count = reinterpret_cast<decltype(&contract_count)>(::dlsym(library, "contract_count"));
  const auto run = reinterpret_cast<decltype(&contract_run)>(::dlsym(library, "contract_run"));
  g_record = ::open(kRecord, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  if (count == nullptr || run == nullptr || g_record < 0) {
    std::fprintf(stderr, "contract_runner: %s holds no contracts, or %s cannot be written\n", argv[1], kRecord);
    return 2;
  }
  for (int index = 0; index < count(); index += stride) {
    run_one(index,
            {.rank = std::atoi(argv[2]),
             .handshake_address = argv[3],
             .handshake_port = kFirstPort + index,
             .host = nullptr,
             .set_link = &set_link,
             .record = &record},
            run);
  }
  return 0;
}
