// A cabling agreement's agreement, without clock and network: whatever is lost, late or repeated, no two ranks act
// differently.
#include "plugin/net/connect/agreement_book.h"

#include <doctest/doctest.h>

#include "plugin/base/prng.h"
#include "tests/net/addresses.h"
#include "tests/net/graphs.h"

namespace agreement_book_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

constexpr AgreementKey key(std::uint32_t ranks, std::uint16_t nodes) {
  return {.communicator = 7, .ranks = ranks, .nodes = nodes};
}

/// A process of node `node`, one of a ring of `nodes`: addresses 192.168.NODE.1 and 192.168.(NODE - 1).2.
AgreementBook book_of(int node, int nodes, const AgreementKey& of, std::uint32_t process = 1) {
  const auto address = [](int subnet, int host) {
    return "192.168." + std::to_string(subnet) + "." + std::to_string(host) + "/24";
  };
  const auto nic = test::nic("a", {address(node, 1), address((node + nodes - 1) % nodes, 2)});
  return AgreementBook({.key = of,
                        .node = 900U - static_cast<std::uint64_t>(node),  // so that identities are in another order
                        .process = process,
                        .rules = kTunerRules,
                        .addresses = test::as_peer({nic})});
}

std::vector<AgreementBook> ring_of(int nodes) {
  std::vector<AgreementBook> books;
  for (int node = 0; node < nodes; ++node) {
    books.push_back(book_of(node, nodes, key(static_cast<std::uint32_t>(nodes), static_cast<std::uint16_t>(nodes))));
    books.back().join();
  }
  return books;
}

void everybody_hears_everybody(std::vector<AgreementBook>& books) {
  for (AgreementBook& speaker : books) {
    const RankAnnouncement words = speaker.speak();
    for (AgreementBook& listener : books) listener.hear(words);
  }
}

}  // namespace

TEST_CASE(
    "all are there: yes in the first round, agreement in the second, and the mesh is the ring in order of addresses") {
  std::vector<AgreementBook> books = ring_of(4);
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) {
    CHECK(book.look(false));
    CHECK(book.stand() == Stand::kYes);
    CHECK(book.outcome() == Outcome::kOpen);
  }
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) {
    CHECK(book.outcome() == Outcome::kAgreed);
    CHECK_FALSE(book.everybody_done());
    CHECK(book.mesh().graph == test::ring_graph(4));
    CHECK(to_text(book.mesh().names[0]) == "192.168.0.1");
    CHECK(to_text(book.mesh().names[2]) == "192.168.1.2");
    book.set_done();
  }
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) CHECK(book.everybody_done());
}

TEST_CASE("one that was not heard by one: that one says no when its time is up, and all who said yes do without") {
  std::vector<AgreementBook> books = ring_of(4);
  for (int speaker = 0; speaker < 4; ++speaker) {
    const RankAnnouncement words = books[static_cast<std::size_t>(speaker)].speak();
    for (int listener = 0; listener < 4; ++listener) {
      if (!(speaker == 2 && listener == 0)) books[static_cast<std::size_t>(listener)].hear(words);
    }
  }
  for (int node = 1; node < 4; ++node) CHECK(books[static_cast<std::size_t>(node)].look(false));
  CHECK_FALSE(books[0].look(false));
  CHECK(books[0].look(true));
  CHECK(books[0].reason() == "only 3 of 4 ranks, on 3 of 4 nodes, are there");
  CHECK(books[1].outcome() == Outcome::kOpen);
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) CHECK(book.outcome() == Outcome::kNone);
}

TEST_CASE("a no that was heard ends the waiting at once, and says whose it was") {
  std::vector<AgreementBook> books = ring_of(3);
  CHECK(books[2].look(true));
  books[0].hear(books[2].speak());
  CHECK(books[0].look(false));
  CHECK(books[0].reason() == "a rank at 192.168.2.1 declined");
}

TEST_CASE("yes to something else, another version's rules, and other numbers than NCCL's end in no") {
  std::vector<AgreementBook> books = ring_of(3);
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) book.look(false);
  RankAnnouncement words = books[1].speak();
  words.mesh ^= 1U;
  books[0].hear(words);
  CHECK(books[0].outcome() == Outcome::kNone);

  books = ring_of(3);
  words = books[1].speak();
  words.rules = kTunerRules + 1;
  books[0].hear(words);
  CHECK(books[0].look(false));
  CHECK(books[0].reason() == "192.168.1.1 has another version of this plugin");

  AgreementBook here = book_of(0, 3, key(2, 1));  // NCCL sees one machine in two nodes
  AgreementBook there = book_of(1, 3, key(2, 1));
  here.join();
  there.join();
  here.hear(there.speak());
  CHECK(here.look(false));
  CHECK(here.reason() == "NCCL counts 2 ranks on 1 nodes, and here are 2 on 2");
}

TEST_CASE(
    "several ranks a process, several processes a node: all must be there, and a node has its processes' cables") {
  AgreementBook first = book_of(0, 4, key(4, 2), 1), second = book_of(0, 4, key(4, 2), 2),
                other = book_of(1, 4, key(4, 2));
  first.join();
  other.join();
  other.join();
  std::vector<AgreementBook*> books{&first, &second, &other};
  const auto exchange = [&] {
    for (AgreementBook* speaker : books) {
      const RankAnnouncement words = speaker->speak();
      for (AgreementBook* listener : books) listener->hear(words);
    }
  };
  exchange();
  CHECK_FALSE(first.look(false));  // three ranks so far
  second.join();
  exchange();
  for (AgreementBook* book : books) CHECK(book->look(false));
  exchange();
  for (AgreementBook* book : books) {
    CHECK(book->outcome() == Outcome::kAgreed);
    CHECK(book->mesh().graph == test::line_graph(2));
  }
}

TEST_CASE("who answers: to a new one always, to one that lags when we are through, and never without an end") {
  std::vector<AgreementBook> books = ring_of(2);
  CHECK(books[0].hear(books[1].speak()));
  CHECK_FALSE(books[0].hear(books[1].speak()));
  books[0].set_done();
  CHECK(books[0].hear(books[1].speak()));
  books[1].set_done();
  CHECK_FALSE(books[0].hear(books[1].speak()));
  CHECK_FALSE(books[0].hear(books[0].speak()));  // our own words
}

TEST_CASE("strangers neither fill the book nor change what was counted") {
  std::vector<AgreementBook> books = ring_of(2);
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) book.look(false);
  for (std::uint32_t process = 10; process < 100; ++process) {
    AgreementBook stranger = book_of(1, 2, key(2, 2), process);
    stranger.join();
    stranger.look(true);
    books[0].hear(stranger.speak());
  }
  everybody_hears_everybody(books);
  CHECK(books[0].outcome() == Outcome::kAgreed);
}

TEST_CASE("in doubt: an agreement is followed, if none can have agreed all decline, and a silent process is lost") {
  const auto all_said_yes = [] {
    std::vector<AgreementBook> books = ring_of(3);
    everybody_hears_everybody(books);
    for (AgreementBook& book : books) book.look(false);
    return books;
  };
  // 0 has received all announcements; 1 has received none, and asks.
  std::vector<AgreementBook> books = all_said_yes();
  for (std::size_t speaker = 1; speaker < 3; ++speaker) books[0].hear(books[speaker].speak());
  CHECK(books[0].outcome() == Outcome::kAgreed);
  books[0].set_done();
  CHECK(books[1].doubt());
  CHECK_FALSE(books[1].doubt());
  books[2].hear(books[1].speak());
  CHECK(books[2].stand() == Stand::kDoubt);
  CHECK(books[2].outcome() == Outcome::kOpen);
  CHECK(books[0].hear(books[1].speak()));
  books[1].hear(books[0].speak());
  CHECK(books[1].outcome() == Outcome::kAgreed);
  books[1].set_done();
  books[2].hear(books[1].speak());
  CHECK(books[2].outcome() == Outcome::kAgreed);

  books = all_said_yes();
  books[1].doubt();
  everybody_hears_everybody(books);
  everybody_hears_everybody(books);
  for (AgreementBook& book : books) CHECK(book.outcome() == Outcome::kNone);

  books = all_said_yes();
  books[0].doubt();
  CHECK(books[0].reason() == "no vote came from 192.168.2.1, 192.168.1.1");
  books[0].give_up();
  CHECK(books[0].outcome() == Outcome::kNone);
  books[1].give_up();  // never before it asked
  CHECK(books[1].outcome() == Outcome::kOpen);
}

TEST_CASE("who is coming is waited for as long as it says so, and counts for nothing else") {
  AgreementBook here = book_of(0, 2, key(2, 2)), coming = book_of(1, 2, key(2, 2));
  here.join();
  CHECK_FALSE(here.is_somebody_coming(0));
  CHECK(coming.hear(here.speak(), 5));
  CHECK(coming.stand() == Stand::kComing);
  CHECK_FALSE(here.hear(coming.speak(), 10));
  CHECK(here.is_somebody_coming(10));
  CHECK_FALSE(here.is_somebody_coming(11));
  CHECK_FALSE(here.look(false));
  CHECK(coming.hear(here.speak(), 20));  // it is asked again
  coming.join();
  CHECK(coming.look(false));  // it has heard of the other one before
  here.hear(coming.speak(), 30);
  CHECK(here.look(false));
  CHECK(here.outcome() == Outcome::kAgreed);
}

TEST_CASE(
    "random loss, repetition, order and moments of giving up: never does one rank agree while another does without") {
  int agreed_runs = 0, none_runs = 0, doubtful_runs = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Prng random(seed);
    const int nodes = 2 + static_cast<int>(random.below(4));
    std::vector<AgreementBook> books = ring_of(nodes);
    std::vector<RankAnnouncement> air;
    const bool impatient = random.chance(0.5);
    const double doubts = random.chance(0.5) ? 0.01 : 0;
    // One of them may die, and what it said last reach whom it will.
    std::size_t dead = random.chance(0.3) ? random.below(books.size()) : books.size();
    const int death = static_cast<int>(random.below(60U * static_cast<unsigned>(nodes)));
    for (int step = 0; step < 60 * nodes; ++step) {
      const std::size_t which = random.below(books.size());
      if (which == dead && step >= death) continue;
      AgreementBook& book = books[which];
      if (random.chance(doubts)) book.doubt();
      if (random.chance(0.4)) air.push_back(book.speak());
      if (!air.empty() && random.chance(0.7)) book.hear(air[random.below(air.size())]);
      book.look(impatient && random.chance(0.02));
    }
    bool agreed = false, none = false, doubtful = false;
    const auto hear_each_other = [&] {
      for (std::size_t speaker = 0; speaker < books.size(); ++speaker) {
        if (speaker == dead) continue;
        if (books[speaker].outcome() != Outcome::kOpen) books[speaker].set_done();
        const RankAnnouncement words = books[speaker].speak();
        for (std::size_t listener = 0; listener < books.size(); ++listener) {
          if (listener != dead) books[listener].hear(words);
        }
      }
    };
    // The living go on until each of them has decided; who is in doubt gives up last.
    for (int round = 0; round < 5; ++round) {
      hear_each_other();
      for (std::size_t which = 0; which < books.size(); ++which) {
        if (which == dead) continue;
        AgreementBook& book = books[which];
        book.look(round > 0);
        doubtful = doubtful || book.stand() == Stand::kDoubt;
        if (round == 2) book.doubt();
        if (round == 4) book.give_up();
      }
    }
    CAPTURE(seed);
    for (std::size_t which = 0; which < books.size(); ++which) {
      if (which == dead) continue;
      REQUIRE(books[which].outcome() != Outcome::kOpen);
      agreed = agreed || books[which].outcome() == Outcome::kAgreed;
      none = none || books[which].outcome() == Outcome::kNone;
    }
    REQUIRE_FALSE((agreed && none));
    doubtful_runs += doubtful ? 1 : 0;
    agreed_runs += agreed ? 1 : 0;
    none_runs += none ? 1 : 0;
  }
  CHECK(agreed_runs > 1000);  // both happen
  CHECK(none_runs > 1000);
  CHECK(doubtful_runs > 500);
}

}  // namespace agreement_book_test
