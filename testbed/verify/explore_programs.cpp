#include "testbed/verify/explore_programs.h"

namespace meshbed::testbed {
namespace {

constexpr std::uint64_t kExploredBytes = 3000;  // three packets, so that a message can be half there

/// Seeds of the patterns: by the rank that sends.
std::uint64_t seed_of(int rank) { return 40 + static_cast<std::uint64_t>(rank); }

// --- one connection: rank 0 listens, rank 1 connects ---

void connection(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    void* comm = rank.accept(listener);
    rank.close_receive(comm);
    rank.close_listen(listener);
  } else {
    rank.close_send(rank.connect(0, "0"));
  }
}

void message(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    Message in(rank.accept(listener), kExploredBytes, seed_of(1));
    rank.post_receive(in);
    rank.finish_receive(in);
    rank.close_receive(in.comm, &in);
    rank.close_listen(listener);
  } else {
    Message out(rank.connect(0, "0"), kExploredBytes, seed_of(1));
    rank.post_send(out);
    rank.finish_send(out);
    rank.close_send(out.comm, &out);
  }
}

// --- one connection each way ---

void both_ways(ExploredRank& rank, int listen_device, int connect_device) {
  const std::string own = rank.first() ? "0" : "1", other = rank.first() ? "1" : "0";
  void* listener = rank.listen(listen_device, own);
  void *send = nullptr, *receive = nullptr;
  rank.until_done({rank.connecting(connect_device, other, send), rank.accepting(listener, receive)});
  rank.close_listen(listener);
  Message out(send, kExploredBytes, seed_of(rank.rank())), in(receive, kExploredBytes, seed_of(1 - rank.rank()));
  rank.until_done({rank.receiving(in), rank.sending(out)});
  rank.until_done({rank.finishing(in, true, Errors::kNone), rank.finishing(out, false, Errors::kNone)});
  rank.close_send(send, &out);
  rank.close_receive(receive, &in);
}

/// Rank 0's connection on the first cable, rank 1's on the second.
void crossed(ExploredRank& rank) { both_ways(rank, rank.first() ? 1 : 0, rank.first() ? 0 : 1); }
/// Each rank connects from the device whose cable does not lead to the one that the other listens on.
void crossed_reversed(ExploredRank& rank) { both_ways(rank, rank.first() ? 1 : 0, rank.first() ? 1 : 0); }

// --- ends that are no mutual agreement ---

/// The receiver closes with a receive posted; the sender's request is done, or ends with an error.
void receiver_closes(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    Message in(rank.accept(listener), kExploredBytes, seed_of(1));
    rank.post_receive(in);
    rank.close_receive(in.comm, &in);
    rank.close_listen(listener);
  } else {
    Message out(rank.connect(0, "0"), kExploredBytes, seed_of(1));
    rank.post_send(out, Errors::kExpected);
    rank.finish_send(out, Errors::kExpected);
    rank.close_send(out.comm, &out);
  }
}

/// The sender closes with a send under way; the receiver's request is done, with all bytes, or ends with an error.
void sender_closes(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    Message in(rank.accept(listener), kExploredBytes, seed_of(1));
    rank.post_receive(in, Errors::kExpected);
    rank.finish_receive(in, Errors::kExpected);
    rank.close_receive(in.comm, &in);
    rank.close_listen(listener);
  } else {
    Message out(rank.connect(0, "0"), kExploredBytes, seed_of(1));
    rank.post_send(out);
    rank.close_send(out.comm, &out);
  }
}

/// The abort of a communicator: neither end waits for what it began.
void both_close(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    Message in(rank.accept(listener), kExploredBytes, seed_of(1));
    rank.post_receive(in, Errors::kExpected);
    rank.close_listen(listener);
    rank.close_receive(in.comm, &in);
  } else {
    Message out(rank.connect(0, "0"), kExploredBytes, seed_of(1));
    rank.until_done({rank.sending_briefly(out, 2)});
    rank.close_send(out.comm, &out);
  }
}

/// The listener looks twice, and closes whatever it got; the other end closes as soon as it is connected.
void hardly_accepted(ExploredRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "0");
    void* comm = nullptr;
    rank.until_done({rank.accepting_briefly(listener, comm, 2)});
    rank.close_listen(listener);
    rank.close_receive(comm);
  } else {
    rank.close_send(rank.connect(0, "0", Errors::kExpected));
  }
}

/// The listener is closed while the other is on the way to it: that ends with an error, or with a connection.
void listener_closes(ExploredRank& rank) {
  if (rank.first()) {
    rank.close_listen(rank.listen(0, "0"));
  } else {
    rank.close_send(rank.connect(0, "0", Errors::kExpected));
  }
}

}  // namespace

const std::vector<ExploredProgram>& explored_programs() {
  constexpr int kAny = Interleaver::kNoBound;
  static const std::vector<ExploredProgram> all{
      {"connection", "a connection is made and closed; the sender may close before the other end has accepted",
       connection, 2, kAny},
      {"message", "one message over one connection", message, 1, kAny},
      {"crossed", "a connection and a message each way at once, each on a cable of its own", crossed, 0, 0},
      {"crossed-reversed", "the same with devices that do not face each other", crossed_reversed, 0, 0},
      {"receiver-closes", "a connection is closed with a receive posted", receiver_closes, 1, kAny},
      {"sender-closes", "a connection is closed with a send under way", sender_closes, 1, kAny},
      {"both-close", "both ends close with requests under way", both_close, 1, kAny},
      {"hardly-accepted", "a listener is given up after two looks at it, the connection is closed at once",
       hardly_accepted, 2, kAny},
      {"listener-closes", "a listener is closed while a connection to it is being made", listener_closes, 2, kAny},
      {"striped", "one message in stripes over both cables", message, 1, kAny, true},
      {"striped-receiver", "as receiver-closes, with stripes under way", receiver_closes, 1, kAny, true},
      {"striped-sender", "as sender-closes, with stripes under way", sender_closes, 1, kAny, true},
      {"striped-both", "as both-close, with stripes under way", both_close, 1, kAny, true},
  };
  return all;
}

}  // namespace meshbed::testbed
