// meshbed validate, calibrate and models by the command line.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/command.h"

namespace validate_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

const std::string kRoot = MESHBED_SOURCE_DIR;

CommandResult run_meshbed(const std::string& words) {
  return run_command_line("cd '" + kRoot + "' && " + meshbed_program() + " " + words + " 2>&1");
}

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = scratch_folder("validate") + "/" + name;
  std::ofstream(path) << text;
  return path;
}

const std::string kColumns = "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant\n";

}  // namespace

TEST_CASE("validate prints each point, the summary and one JSON object a file") {
  const json told =
      json::parse(run_meshbed("validate models/data/cal_aws_2xT4_g4dn_efa_allreduce.csv --profile auto --json").output);
  for (const char* key : {"file", "profile", "points", "median", "p90", "max", "naive_own_line_median",
                          "naive_carried_line_median", "naive_two_regime_median"}) {
    CHECK_MESSAGE(told.contains(key), key);
  }
  CHECK(told.at("profile") == "t4-efa");
  CHECK(told.at("points") == told.at("rows").size());
  CHECK(told.at("median").get<double>() < 0.06);
  CHECK(told.at("median").get<double>() < told.at("naive_own_line_median").get<double>());
  const std::string plot = scratch_folder("validate_plot") + "/t4.svg";
  const CommandResult text =
      run_meshbed("validate models/data/cal_aws_2xT4_g4dn_efa_allreduce.csv --plot '" + plot + "'");
  CHECK(text.status == 0);
  CHECK(text.output.find("measured us") != std::string::npos);
  CHECK(run_command_line("grep -c 'class=\"m\"' '" + plot + "'").output == "59\n");  // and the legend's
}

TEST_CASE("a file of two kinds of software is judged by two profiles, row by row") {
  const CommandResult told = run_meshbed("validate models/data/cal_spark2_latbench_allreduce.csv");
  CHECK(told.status == 0);
  for (const char* line :
       {"# profile spark-pair-200g: ", "# profile spark-pair-oneshot: ", "direct Simple", "ring LL"}) {
    CHECK_MESSAGE(told.output.find(line) != std::string::npos, line);
  }
}

TEST_CASE("bad rows are named by line and reason, and the rest is judged; no row at all is an error") {
  const std::string some = file_with(
      "some.csv", "# topology_class: 1gpu/node, EFA\n" + kColumns +
                      "all_reduce,2,2,1024,70,,,out,\nall_reduce,1,1,1024,70,,,out,\nall_dance,2,2,1024,70,,,out,\n"
                      "all_reduce,2,2,-4,70,,,out,\nall_reduce,2,2,1024,,,,out,\nall_reduce,2,3,1024,70,,,out,\n");
  const CommandResult result = run_meshbed("validate " + some);
  CHECK(result.status == 0);
  for (const char* told : {":4: 1 ranks; 2 to 1000000", ":5: there is no collective \"all_dance\"", ":6: bytes are not",
                           ":7: no time", ":8: 3 nodes for 2 ranks", "1 points: median"}) {
    CHECK_MESSAGE(result.output.find(told) != std::string::npos, told, "\n", result.output);
  }
  CHECK(run_meshbed("validate " + file_with("none.csv", kColumns)).status == 2);
  CHECK(run_meshbed("validate " + file_with("words.csv", "what,is,this\n1,2,3\n")).status == 2);
  CHECK(run_meshbed("validate /nowhere/x.csv").status == 2);
}

TEST_CASE("a class that no profile has is predicted as one that passes the gates, or by no class; both are named") {
  const std::string rows = kColumns + "all_reduce,16,2,1048576,120,,,out,\nall_reduce,16,2,1073741824,5600,,,out,\n";
  struct Near {
    const char *topology_class, *profile, *told;
  };
  for (const Near& near : {Near{"8gpu/node NVLink, 8x400G InfiniBand", "b200-ib400", "the nearest, b200-ib400"},
                           {"8gpu/node NVLink, EFA 450G", "p4de-efa", "adapters of 450 Gb/s a node"},
                           {"4gpu/node NVLink, 8x200G TCPXO", "a3mega-tcpxo", "4 ranks a node"},
                           {"1gpu/node, 25GbE TCP", "tcp-socket", "the nearest, tcp-socket"}}) {
    const std::string path =
        file_with("near.csv", std::string("# topology_class: ") + near.topology_class + "\n" + rows);
    const CommandResult result = run_meshbed("validate " + path);
    CHECK_MESSAGE(result.status == 0, result.output);
    CHECK_MESSAGE(
        result.output.find("no profile is of the class \"" + std::string(near.topology_class)) != std::string::npos,
        result.output);
    CHECK_MESSAGE(result.output.find(near.told) != std::string::npos, near.told, "\n", result.output);
    CHECK_MESSAGE(result.output.find("profile " + std::string(near.profile)) != std::string::npos, result.output);
  }
  const CommandResult none =
      run_meshbed("validate " + file_with("none.csv", "# topology_class: 8gpu/node NVLink, EFA 1600G\n" + rows));
  CHECK(none.status == 0);
  for (const char* line :
       {"no class of this kind is known: \"8gpu/node NVLink, EFA 1600G\" is efa, several nodes, nccl, "
        "1600 Gb/s a node",
        "# choice: no class of this kind is known", "no class, gate offloaded: no class of this kind"}) {
    CHECK_MESSAGE(none.output.find(line) != std::string::npos, line, " in ", none.output);
  }
  // Its own class is never named as nearest.
  CHECK(run_meshbed("validate models/data/cal_lambda_16xB200_allreduce.csv").output.find("nearest") ==
        std::string::npos);
}

TEST_CASE(
    "missing nodes are the profile's, adapters those that the class states, and a single adapter's profile is none") {
  const auto predicted = [](const std::string& head, const std::string& row, const std::string& words = "") {
    const std::string output =
        run_meshbed("validate " + file_with("sizes.csv", head + kColumns + row) + " --json" + words).output;
    const std::size_t begin = output.find('{');
    REQUIRE_MESSAGE(begin != std::string::npos, output);
    return json::parse(output.substr(begin)).at("rows").at(0);
  };
  const std::string own = "# topology_class: 8gpu/node NVLink, 8x200G IB\n";
  const json untold = predicted(own, "all_reduce,16,,1073741824,9000,,,out,\n");
  CHECK(untold.at("nodes") == 2);
  CHECK(untold == predicted(own, "all_reduce,16,2,1073741824,9000,,,out,\n"));
  CHECK(predicted("", "all_reduce,16,,1073741824,9000,,,out,\n", " --profile dgxa100-hdr").at("nodes") == 2);
  // One adapter of 200G carries what one of eight does, and no eighth of it.
  const auto lone_us = [&](const std::string& adapters) {
    return predicted("# topology_class: 8gpu/node NVLink, " + adapters + " IB\n",
                     "broadcast,8,8,1073741824,50000,,,out,\n")
        .at("predicted_us")
        .get<double>();
  };
  // The first is of no class, since none has its rate, and has what verbs have in common; an eighth would be 8 times
  // it.
  CHECK(lone_us("1x200G") < 2 * lone_us("8x200G"));
  CHECK(lone_us("1x200G") > 0.5 * lone_us("8x200G"));
  CHECK(lone_us("99999999999999999999x400G") > 1000);  // no such node: the class's own
  const CommandResult single = run_meshbed(
      "validate " + file_with("single.csv", kColumns + "all_reduce,2,2,64,9,,,out,\n") + " --profile nic-hdr200");
  CHECK(single.status == 2);
  CHECK_MESSAGE(single.output.find("single.csv:2: profile nic-hdr200 is of single messages, and says nothing of "
                                   "all_reduce; choose one of collectives by --profile") != std::string::npos,
                single.output);
}

TEST_CASE("a fit that explains nothing says so, and of which machine it was made") {
  const CommandResult contrary = run_meshbed(
      "calibrate " +
      file_with("contrary.csv", kColumns + "all_reduce,4,4,1024,5000,,,out,\nall_reduce,4,4,65536,500,,,out,\n"
                                           "all_reduce,4,4,1048576,50,,,out,\nall_reduce,4,4,16777216,2,,,out,\n"
                                           "all_reduce,4,4,1073741824,1,,,out,\n") +
      " --class contrary --rate 100Gb/s");
  CHECK(contrary.status == 0);
  CHECK_MESSAGE(contrary.output.find("half of its times are off by more than 30 %: no such machine takes them. It is "
                                     "taken for 1 adapters of 12.5 GB/s and 1 ranks a node") != std::string::npos,
                contrary.output);
  CHECK(run_meshbed("calibrate models/data/cal_l4_2x2_400G_nogdr_allreduce.csv --class ''").status == 2);
}

TEST_CASE("a live run is calibrated from: what perf prints, and the JSON that it writes, are the same measurements") {
  const std::string folder = scratch_folder("live");
  const std::string path = folder + "/live.json", profile = folder + "/live.toml";
  std::filesystem::remove(path);  // what is there is not written over
  const CommandResult perf = run_meshbed(
      "perf all_gather -b 8K -e 8M -f 4 --scenario scenarios/ring4.toml --profile "
      "spark-ring-sircl -J " +
      path);
  REQUIRE_MESSAGE(perf.status == 0, perf.output);
  CHECK(perf.output.find("# Collective test starting: all_gather_perf\n") != std::string::npos);
  const std::string text = file_with("live.txt", perf.output);
  for (const std::string& each : {path, text}) {
    const CommandResult fit = run_meshbed("calibrate " + each + " --class live --rate 200Gb/s --out " + profile);
    REQUIRE_MESSAGE(fit.status == 0, fit.output);
    const json told = json::parse(run_meshbed("validate " + each + " --profile " + profile + " --json").output);
    CHECK(told.at("rows").size() == 12);  // six sizes, in two placements
    CHECK(told.at("rows").at(0).at("collective") == "all_gather");
    CHECK(told.at("rows").at(0).at("ranks") == 4);
    CHECK(told.at("rows").at(0).at("nodes") == 4);
    CHECK(told.at("median") < 0.05);
  }
  const CommandResult broken =
      run_meshbed("calibrate " + file_with("cut.json", "{\"nccl_version\":1,") + " --class live");
  CHECK(broken.status == 2);
  CHECK_MESSAGE(broken.output.find("cut.json: the JSON of nccl-tests is broken or ends early") != std::string::npos,
                broken.output);
}

TEST_CASE("uncalibrated and unseen: the profile without its fits, and with what other classes tell") {
  const std::string file = "validate models/data/cal_gke_a3ultra_16xH200_allgather.csv --json";
  const auto median_of = [&](const std::string& words) {
    return json::parse(run_meshbed(file + words).output).at("median").get<double>();
  };
  CHECK(median_of("") < median_of(" --unseen"));
  CHECK(median_of(" --unseen") < median_of(" --uncalibrated"));
  // What was fitted to the nearest class is a fit, too: nothing of it is left in the machine that stands for the
  // file's.
  const std::string path = file_with("near.csv", "# topology_class: 8gpu/node NVLink, 8x400G InfiniBand\n" + kColumns +
                                                     "all_reduce,16,2,1048576,120,,,out,\n");
  const auto predicted = [&](const std::string& words) {
    const std::string output = run_meshbed("validate " + path + " --uncalibrated --json" + words).output;
    const std::size_t begin = output.find('{');  // behind a note
    REQUIRE(begin != std::string::npos);
    return json::parse(output.substr(begin)).at("rows").at(0).at("predicted_us").get<double>();
  };
  CHECK(predicted("") == predicted(" --profile b200-ib400"));
}

TEST_CASE("each row has an interval with its basis; what was outside the measured sizes, ranks and kinds is named") {
  const auto rows_of = [](const std::string& words) {
    const std::string output = run_meshbed("validate " + words + " --json").output;
    const std::size_t begin = output.find('{');
    REQUIRE_MESSAGE(begin != std::string::npos, output);
    return json::parse(output.substr(begin));
  };
  const json own = rows_of("models/data/cal_aws_2xT4_g4dn_efa_allreduce.csv");
  for (const json& row : own.at("rows")) {
    CHECK(row.at("low_us").get<double>() > 0);
    CHECK(row.at("low_us") <= row.at("predicted_us"));
    CHECK(row.at("predicted_us") <= row.at("high_us"));
    CHECK(row.at("basis").at("class") == "t4-efa");
    CHECK(row.at("basis").at("gate") == "offloaded");
    CHECK(row.at("basis").at("distance") == "same class and kind");
  }
  CHECK(own.at("inside") > 0.8);
  const std::string head = "# topology_class: 1gpu/node, TCP sockets\n" + kColumns;
  const json far = rows_of(file_with("far.csv", head + "all_reduce,2,2,1099511627776,1000000,,,out,\n"
                                                       "all_reduce,8,8,1048576,300,,,out,\n"
                                                       "broadcast,2,2,1048576,300,,,out,\n"))
                       .at("rows");
  CHECK(far.at(0).at("basis").at("text").get<std::string>().find("outside what was measured: largest size ") !=
        std::string::npos);
  CHECK(far.at(0).at("basis").at("distance") == "same class and kind, other sizes");
  CHECK(far.at(1).at("basis").at("distance") == "same class, other ranks");
  CHECK(far.at(2).at("basis").at("distance") == "same class, other operation or setting");
  const json unseen = rows_of("models/data/cal_aws_2xT4_g4dn_efa_allreduce.csv --unseen");
  CHECK(unseen.at("median_relative_width") > own.at("median_relative_width"));
  const std::string text = run_meshbed("validate models/data/cal_aws_2xT4_g4dn_efa_allreduce.csv").output;
  for (const char* line :
       {"9 of 10 lie in, us", "  intervals: ", " of the points inside", "# choice: profile t4-efa, of the file's class",
        "points: class t4-efa, gate offloaded: same class and kind"}) {
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, " in ", text);
  }
  const std::string explained = run_meshbed("models --explain t4-efa --bytes 1M --ranks 4").output;
  CHECK(explained.find("9 of 10 measurements lie between ") != std::string::npos);
  CHECK(explained.find("same class, other ranks; outside what was measured: 2 ranks on 2 nodes") != std::string::npos);
  CHECK(run_meshbed("models --explain nic-hdr200 --bytes 4K").output.find("gate message: same class and kind") !=
        std::string::npos);
}

TEST_CASE("a mangled file is an error with file, line and cause, or its good rows and the bad ones by line") {
  const std::string head = "# topology_class: 1gpu/node, EFA\n" + kColumns;
  const std::string good = "all_reduce,2,2,1024,70,,,out,\n";
  struct Mangled {
    std::string text, told;
    int status;
  };
  const std::vector<Mangled> all{
      {"", "no row of column names", 2},
      {std::string("\0\x7f\xff\0binary\n", 11), "no column \"bytes\"", 2},
      {head, "no rows below the column names", 2},
      {head + "all_reduce,2,2,ten,70,,,out,\n", ":3: ", 2},
      {head + good + "all_reduce,2,2,1e400,70,,,out,\n", ":4: ", 0},
      {head + good + "all_reduce,2,2,1024,nan,,,out,\n", ":4: ", 0},
      {head + good + "all_reduce,2,2,1024,-5,,,out,\n", ":4: ", 0},
      {head + good + "all_reduce,99999999999999999999,2,1024,70,,,out,\n", ":4: ", 0},
      {head + good + "all_reduce,2,2\n", ":4: ", 0},
      {head + good + "\"all_reduce,2,2,1024,70,,,out,\n", ":4: ", 0},
      {head + good + "all_reduce,2,2,10", ":4: ", 0},
  };
  for (const Mangled& each : all) {
    const std::string path = file_with("mangled.csv", each.text);
    const CommandResult result = run_meshbed("validate " + path);
    CHECK_MESSAGE(result.status == each.status, each.text, "\n", result.output);
    CHECK_MESSAGE(result.output.find(path) != std::string::npos, each.text, "\n", result.output);
    CHECK_MESSAGE(result.output.find(each.told) != std::string::npos, each.text, "\n", result.output);
  }
}

TEST_CASE("a class that no profile has is an error that lists the profiles; a named profile predicts it all the same") {
  const std::string odd =
      file_with("odd.csv", "# topology_class: abacus\n" + kColumns + "all_reduce,3,3,1024,70,,,out,\n");
  const CommandResult refused = run_meshbed("validate " + odd);
  CHECK(refused.status == 2);
  CHECK(refused.output.find("no profile is of the class \"abacus\"") != std::string::npos);
  CHECK(refused.output.find("t4-efa") != std::string::npos);
  for (const char* words : {" --profile t4-efa", " --profile t4-efa --ranks 7",
                            " --profile a3ultra-roce --topology 4x8", " --profile t4-efa --topology ring"}) {
    CHECK_MESSAGE(run_meshbed("validate " + odd + words).status == 0, words);
  }
  CHECK(run_meshbed("validate " + odd + " --profile t5").output.find("there is no profile \"t5\"; there are: ") !=
        std::string::npos);
  CHECK(run_meshbed("validate " + odd + " --profile t4-efa --topology blob").status == 2);
  const CommandResult many = run_meshbed("validate " + odd + " --profile t4-efa --topology 65536x65536");
  CHECK(many.status == 2);
  CHECK(many.output.find("--topology 65536x65536: 4294967296 ranks; at most 1000000") != std::string::npos);
}

TEST_CASE("calibrate writes a profile that validate reads, and refuses what cannot be determined") {
  const std::string out = scratch_folder("calibrate") + "/mine.toml";
  const CommandResult fit =
      run_meshbed("calibrate models/data/cal_spark3mesh_plugin_allgather.csv --class mine --out " + out);
  CHECK(fit.status == 0);
  CHECK(run_command_line("grep -c '3-node direct mesh, 3 subnets' '" + out + "'").output == "1\n");
  CHECK(fit.output.find("cannot tell") != std::string::npos);  // one count of ranks: launch and hop are one sum
  CHECK(run_meshbed("validate models/data/cal_spark3mesh_plugin_allreduce.csv --profile " + out).status == 0);
  const CommandResult few = run_meshbed("calibrate --class x --rate 100Gb/s " +
                                        file_with("few.csv", kColumns + "all_reduce,2,2,64,5,,,out,\n"));
  CHECK(few.status == 2);
  CHECK(few.output.find("under-determined: 1 different points") != std::string::npos);
}

TEST_CASE("models lists the profiles and explains one: every value with its basis, and a prediction in parts") {
  CHECK(run_meshbed("models").output.find("t4-efa") != std::string::npos);
  const CommandResult told = run_meshbed("models --explain t4-efa --bytes 1M --ranks 4");
  CHECK(told.status == 0);
  for (const char* part :
       {"launch_us", "guess", "calibrated", "hops between nodes", "wire", "all_reduce of 1048576 bytes"}) {
    CHECK_MESSAGE(told.output.find(part) != std::string::npos, part);
  }
  // A part that costs nothing there is no part: its reduction is within the kernel.
  const CommandResult one_shot = run_meshbed("models --explain spark-ring-oneshot");
  CHECK(one_shot.output.find("hops between nodes") != std::string::npos);
  CHECK(one_shot.output.find(" 0.00 us") == std::string::npos);
  CHECK(run_meshbed("models --explain nothing").status == 2);
}

TEST_CASE(
    "of device rings models explains a slot's way and a one-shot exchange in parts, of ranks that were measured") {
  const std::string explain = "models --explain dgx-spark-ring --bytes 60K ";
  const CommandResult told = run_meshbed(explain);
  CHECK(told.status == 0);
  // docs/megakernel.md has the same row: 28.28 us at 60 KiB on the ring.
  for (const char* part :
       {"a slot, from its publication", "slots/s at most", "one-shot, by profile spark-ring-oneshot",
        "all_reduce of 61440 bytes, 4 ranks on 4 nodes: 28.28 us", "hops between nodes", "wire", "fill"}) {
    CHECK_MESSAGE(told.output.find(part) != std::string::npos, part);
  }
  CHECK(run_meshbed(explain + "--ranks 2 --collective all_gather").status == 0);
  const CommandResult ranks = run_meshbed(explain + "--ranks 3 2>&1");
  CHECK(ranks.status == 2);
  CHECK(ranks.output.find("--ranks 3: one-shot exchanges are known of a pair and of a ring of 4") != std::string::npos);
  const CommandResult other = run_meshbed(explain + "--collective broadcast 2>&1");
  CHECK(other.status == 2);
  CHECK(other.output.find("--collective broadcast: a one-shot exchange is all_reduce or all_gather") !=
        std::string::npos);
}

TEST_CASE("models --json has the values and the prediction that the text shows") {
  const json collective = json::parse(run_meshbed("models --explain t4-efa --bytes 1M --ranks 4 --json").output);
  CHECK(collective.at("profile") == "t4-efa");
  CHECK(collective.at("values").at(0).at("name") == "launch_us");
  const json& prediction = collective.at("prediction");
  CHECK(prediction.at("bytes") == 1 << 20);
  double sum_us = 0;
  for (const json& part : prediction.at("parts")) sum_us += part.at("us").get<double>();
  CHECK(prediction.at("us").get<double>() == doctest::Approx(sum_us));
  CHECK(prediction.at("low_us") < prediction.at("us"));
  CHECK(prediction.at("us") < prediction.at("high_us"));
  const std::string text = run_meshbed("models --explain t4-efa --bytes 1M --ranks 4").output;
  CHECK(text.find(fmt::format("ranks on 4 nodes: {:.2f} us, ", prediction.at("us").get<double>())) !=
        std::string::npos);
  const json message = json::parse(run_meshbed("models --explain nic-hdr200 --bytes 4K --json").output);
  CHECK(message.at("one_way").at("us") > message.at("stream").at("us"));
  const json expert = json::parse(run_meshbed("models --explain ep-h100-deepep-ll --json").output);
  CHECK(expert.at("prediction").at("operation") == "dispatch");
  const json rings = json::parse(run_meshbed("models --explain dgx-spark-ring --json").output);
  CHECK(rings.at("rings").at("slot_us") > 0);
  CHECK(rings.at("prediction").at("algorithm") == "direct");
  CHECK(json::parse(run_meshbed("models --json").output).at("profiles").size() > 40);
  CHECK(run_meshbed("models --decode --json").status == 2);
}

TEST_CASE("models explains dispatch and combine of experts, by a class of its own or by medians of the others") {
  const CommandResult own = run_meshbed("models --explain ep-h100-deepep-ll --ranks 32 --tokens 64");
  CHECK(own.status == 0);
  for (const char* part : {"dispatch of 64 tokens of 7408 bytes a rank, top 8 of 256 experts, 32 ranks on 4 nodes",
                           "a token has experts on 7.27 ranks of 3.61 nodes", "NICs", "hop between nodes", "+- "}) {
    CHECK_MESSAGE(own.output.find(part) != std::string::npos, part);
  }
  const CommandResult other = run_meshbed("models --explain b200-ib400 --collective ep_combine --mode normal");
  CHECK(other.status == 0);
  CHECK(other.output.find("no class of this kind is known: medians of the other classes") != std::string::npos);
  const CommandResult collective = run_meshbed("models --explain ep-h100-hybridep --collective all_gather 2>&1");
  CHECK(collective.status == 2);
  CHECK(collective.output.find("ep-h100-hybridep is of dispatch and combine of experts") != std::string::npos);
  CHECK(run_meshbed("models --explain b200-ib400 --collective ep_combine --ranks 1000 2>&1")
            .output.find("--experts 256: fewer than the 1000 ranks") != std::string::npos);
}

TEST_CASE("calibrate asks for a rate that no header states, and a value at its bound is a warning with the rate") {
  const std::string file =
      file_with("rate.csv",
                "collective,ranks,nodes,bytes,time_us\nall_reduce,2,2,1K,20\nall_reduce,2,2,64K,40\n"
                "all_reduce,2,2,1M,150\nall_reduce,2,2,64M,8000\nall_reduce,2,2,256M,32000\n");
  const CommandResult none = run_meshbed("calibrate " + file + " --class z 2>&1");
  CHECK(none.status == 2);
  CHECK_MESSAGE(none.output.find("the rate of the adapters is not known") != std::string::npos, none.output);
  const CommandResult low = run_meshbed("calibrate " + file + " --class z --rate 50Gb/s 2>&1");
  CHECK(low.status == 0);
  CHECK_MESSAGE(low.output.find("nic_fraction = 1 is at the upper end") != std::string::npos, low.output);
  CHECK(low.output.find("\"all_reduce, 2 ranks on 2 nodes\" = \"1024 to 268435456 bytes, 5 points\"") !=
        std::string::npos);
  const CommandResult right = run_meshbed("calibrate " + file + " --class z --rate 100Gb/s 2>&1");
  CHECK(right.status == 0);
  CHECK(right.output.find("warning") == std::string::npos);
  CHECK(run_meshbed("calibrate " + file + " --class z --rate fast 2>&1").status == 2);
}

TEST_CASE("a decode step by a profile: its parts, the ratio to one rank, and what has to be given") {
  const CommandResult step = run_meshbed(
      "models --decode --profile spark-pair-200g --layers 36 --hidden 2880 --compute 17.4ms --total 116.8 --active "
      "5.1");
  CHECK(step.status == 0);
  for (const char* part : {"computing", "all_reduces", "tokens/s", "times one rank", "not modelled"}) {
    CHECK_MESSAGE(step.output.find(part) != std::string::npos, part);
  }
  CHECK(run_meshbed("models --decode --profile b200-ib400 2>&1").output.find("--compute 20ms") != std::string::npos);
  CHECK(run_meshbed("models --decode --profile nic-hdr200 2>&1").status == 2);
  const CommandResult ratios = run_meshbed("models --decode --measured models/data/decode/cal_decode_spark.csv");
  CHECK(ratios.status == 0);
  CHECK(ratios.output.find("22 ratios: median error ") != std::string::npos);
}

}  // namespace validate_command_test
