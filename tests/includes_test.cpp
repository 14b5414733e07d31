// Each file includes what it uses. The compiler alone cannot tell: sources are compiled many at a time, and where they
// are not, the standard library's headers are read once for all (MESHBED_UNITY=OFF in cmake/unity.cmake).
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/sources.h"
#include "tests/support/walk.h"

namespace includes_test {

using namespace meshbed::test;

namespace {

/// Which names come with a header; a name that several have stands with each ([headers] of the standard, as far as the
/// project uses them).
struct Header {
  const char* name;
  const char* names;
};

constexpr Header kStandardHeaders[] = {
    {"algorithm",
     "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal "
     "equal_range fill fill_n find find_end find_if find_if_not for_each generate includes inplace_merge "
     "is_permutation is_sorted lexicographical_compare lower_bound max max_element merge min min_element minmax "
     "minmax_element mismatch next_permutation none_of nth_element partial_sort partition partition_point "
     "prev_permutation remove remove_if replace reverse rotate sample search set_difference set_intersection "
     "set_union shuffle sort stable_partition stable_sort swap_ranges transform unique unique_copy upper_bound"},
    {"array", "array begin data empty end get rbegin rend size ssize to_array tuple_size_v"},
    {"atomic",
     "atomic atomic_bool atomic_flag atomic_ref atomic_signal_fence atomic_thread_fence atomic_uint32_t "
     "memory_order memory_order_acq_rel memory_order_acquire memory_order_relaxed memory_order_release "
     "memory_order_seq_cst"},
    {"bit",
     "bit_cast bit_ceil bit_floor bit_width countl_one countl_zero countr_one countr_zero endian has_single_bit "
     "popcount rotl rotr"},
    {"bitset", "bitset"},
    {"cctype", "isalnum isalpha isdigit islower isprint ispunct isspace isupper isxdigit tolower toupper"},
    {"cfenv", "feclearexcept fegetround fesetround fetestexcept"},
    {"charconv", "chars_format errc from_chars from_chars_result to_chars"},
    {"chrono", "chrono chrono_literals"},
    {"cinttypes", "strtoimax strtoumax"},
    {"cmath",
     "abs ceil copysign cos erf exp exp2 expm1 fabs floor fma fmax fmin fmod fpclassify frexp hypot ilogb isfinite "
     "isinf isnan isnormal ldexp lerp llround log log10 log1p log2 lround modf nan nearbyint nearbyintl nextafter "
     "nexttoward pow remainder rint round scalbn signbit sin sqrt tan tanh trunc"},
    {"complex", "complex"},
    {"condition_variable", "condition_variable cv_status"},
    {"csetjmp", "jmp_buf longjmp"},
    {"csignal", "raise sig_atomic_t signal"},
    {"cstdarg", "va_list"},
    {"cstddef", "byte max_align_t nullptr_t ptrdiff_t size_t to_integer"},
    {"cstdint",
     "int16_t int32_t int64_t int8_t intmax_t intptr_t uint16_t uint32_t uint64_t uint8_t uintmax_t uintptr_t"},
    {"cstdio",
     "FILE fclose feof ferror fflush fgetc fgets fileno fopen fprintf fputc fputs fread freopen fseek ftell fwrite "
     "perror printf putchar puts remove rename rewind setbuf setvbuf size_t snprintf sscanf tmpfile vfprintf "
     "vsnprintf"},
    {"cstdlib",
     "_Exit abort abs aligned_alloc at_quick_exit atexit atof atoi atoll calloc exit free getenv labs llabs malloc "
     "qsort "
     "quick_exit realloc size_t strtod strtof strtol strtoll strtoul strtoull system"},
    {"cstring",
     "memchr memcmp memcpy memmove memset size_t strcat strchr strcmp strcpy strcspn strerror strlen strncmp "
     "strncpy strpbrk strrchr strspn strstr"},
    {"ctime", "clock gmtime localtime mktime size_t strftime time time_t timespec tm"},
    {"deque", "begin data deque empty end erase erase_if rbegin rend size ssize"},
    {"exception",
     "current_exception exception exception_ptr get_terminate make_exception_ptr rethrow_exception set_terminate "
     "terminate uncaught_exceptions"},
    {"filesystem", "error_code filesystem"},
    {"fstream", "dec fixed fstream hex ifstream ios ios_base left ofstream right streamsize"},
    {"functional",
     "bit_and bit_or bit_xor cref divides equal_to function greater hash invoke less minus modulus multiplies plus "
     "ref reference_wrapper"},
    {"future", "async future future_status launch packaged_task promise"},
    {"initializer_list", "initializer_list"},
    {"iomanip", "put_time quoted setfill setprecision setw"},
    {"ios", "dec fixed hex ios ios_base left right streamoff streamsize"},
    {"iosfwd",
     "fstream ifstream iostream istream istringstream ofstream ostream ostringstream streambuf streamoff "
     "stringstream"},
    {"iostream", "cerr cin clog cout dec endl fixed flush hex ios ios_base istream left ostream right streamsize"},
    {"istream", "dec fixed hex ios ios_base istream left right streamsize ws"},
    {"iterator",
     "advance back_inserter begin data distance empty end forward_iterator_tag inserter istream_iterator "
     "istreambuf_iterator iterator_traits make_move_iterator make_reverse_iterator next ostream_iterator "
     "ostreambuf_iterator prev rbegin "
     "rend reverse_iterator size ssize"},
    {"latch", "latch"},
    {"limits", "numeric_limits"},
    {"list", "begin data empty end list rbegin rend size ssize"},
    {"map", "begin data empty end erase_if map multimap rbegin rend size ssize"},
    {"memory",
     "addressof align allocator const_pointer_cast default_delete destroy_at dynamic_pointer_cast "
     "enable_shared_from_this make_shared make_unique make_unique_for_overwrite owner_less shared_ptr "
     "static_pointer_cast uninitialized_copy unique_ptr weak_ptr"},
    {"mutex",
     "adopt_lock call_once defer_lock lock lock_guard mutex once_flag recursive_mutex scoped_lock timed_mutex "
     "try_to_lock unique_lock"},
    {"new",
     "align_val_t bad_alloc get_new_handler hardware_destructive_interference_size launder new_handler nothrow "
     "nothrow_t set_new_handler"},
    {"numbers", "numbers"},
    {"numeric", "accumulate exclusive_scan gcd inclusive_scan inner_product iota lcm midpoint partial_sum reduce"},
    {"optional", "make_optional nullopt nullopt_t optional"},
    {"ostream", "dec endl fixed flush hex ios ios_base left ostream right streamsize"},
    {"queue", "priority_queue queue"},
    {"random",
     "bernoulli_distribution discrete_distribution mt19937 mt19937_64 random_device uniform_int_distribution "
     "uniform_real_distribution"},
    {"ratio", "micro milli nano ratio"},
    {"regex",
     "begin cmatch cregex_iterator data empty end rbegin regex regex_match regex_replace regex_search rend size "
     "smatch sregex_iterator sregex_token_iterator ssize ssub_match"},
    {"semaphore", "binary_semaphore counting_semaphore"},
    {"set", "begin data empty end erase_if multiset rbegin rend set size ssize"},
    {"shared_mutex", "shared_lock shared_mutex"},
    {"span", "as_bytes as_writable_bytes begin data dynamic_extent empty end rbegin rend size span ssize"},
    {"sstream", "dec fixed hex ios ios_base istringstream left ostringstream right streamsize stringbuf stringstream"},
    {"stack", "stack"},
    {"stdexcept",
     "domain_error exception invalid_argument length_error logic_error out_of_range overflow_error range_error "
     "runtime_error"},
    {"streambuf", "streambuf"},
    {"string",
     "basic_string begin char_traits data empty end erase erase_if getline rbegin rend size ssize stod stof stoi "
     "stol stoll stoul stoull string string_literals to_string u16string"},
    {"string_view",
     "basic_string_view begin data empty end hash rbegin rend size ssize string_literals string_view "
     "string_view_literals"},
    {"system_error",
     "errc error_category error_code error_condition generic_category make_error_code runtime_error "
     "system_category system_error"},
    {"thread", "jthread this_thread thread"},
    {"tuple", "apply forward_as_tuple get ignore make_tuple tie tuple tuple_cat tuple_element_t tuple_size_v"},
    {"type_traits",
     "add_pointer_t alignment_of_v bool_constant common_type_t conditional_t conjunction_v decay_t disjunction_v "
     "enable_if_t false_type has_unique_object_representations_v integral_constant invoke_result_t is_arithmetic_v "
     "is_array_v is_base_of_v is_class_v is_const_v is_constant_evaluated is_convertible_v is_copy_assignable_v "
     "is_copy_constructible_v is_default_constructible_v is_enum_v is_floating_point_v is_function_v is_integral_v "
     "is_invocable_r_v is_invocable_v is_lvalue_reference_v is_move_assignable_v is_move_constructible_v "
     "is_nothrow_move_assignable_v is_nothrow_move_constructible_v is_nothrow_swappable_v is_null_pointer_v "
     "is_pointer_v is_reference_v is_rvalue_reference_v is_same is_same_v is_signed_v is_standard_layout_v "
     "is_trivial_v is_trivially_copyable_v is_trivially_destructible_v is_unsigned_v is_void_v make_signed_t "
     "make_unsigned make_unsigned_t remove_const_t remove_cv_t remove_cvref_t remove_pointer_t remove_reference_t "
     "true_type type_identity type_identity_t underlying_type_t void_t"},
    {"typeindex", "type_index"},
    {"typeinfo", "type_info"},
    {"unordered_map", "begin data empty end erase_if rbegin rend size ssize unordered_map unordered_multimap"},
    {"unordered_set", "begin data empty end rbegin rend size ssize unordered_set"},
    {"utility",
     "as_const cmp_equal cmp_greater cmp_less declval exchange forward get in_place in_place_index in_place_type "
     "index_sequence index_sequence_for make_index_sequence make_pair move pair swap tuple_size_v unreachable"},
    {"valarray", "valarray"},
    {"variant",
     "bad_variant_access get get_if holds_alternative in_place_index in_place_type monostate variant "
     "variant_size_v visit"},
    {"vector", "begin data empty end erase erase_if rbegin rend size ssize vector"},
};

/// The headers that have it, by name.
const std::map<std::string, std::set<std::string>>& headers_of_names() {
  static const std::map<std::string, std::set<std::string>> kHeaders = [] {
    std::map<std::string, std::set<std::string>> headers;
    for (const Header& header : kStandardHeaders) {
      std::istringstream names(header.names);
      for (std::string name; names >> name;) headers[name].insert(header.name);
    }
    return headers;
  }();
  return kHeaders;
}

/// What it includes beyond the project, as written; C's headers by C++'s names for them.
std::set<std::string> other_includes(const std::string& text) {
  static const std::set<std::string> kOfC{"errno",  "limits", "math",   "signal", "stdarg", "stddef",
                                          "stdint", "stdio",  "stdlib", "string", "time"};
  std::set<std::string> includes;
  for (const std::string& name : quoted_after(text, "#include <", '>')) {
    const bool of_c = name.ends_with(".h") && kOfC.count(name.substr(0, name.size() - 2)) != 0;
    includes.insert(of_c ? "c" + name.substr(0, name.size() - 2) : name);
  }
  return includes;
}

/// The sources by path, and what comes with including one.
class Includes {
 public:
  explicit Includes(const std::vector<Source>& sources) {
    for (const Source& source : sources) texts_.emplace(source.path, source.text);
  }

  /// Headers beyond the project's that a file has, its own and those of the project's headers that it includes.
  const std::set<std::string>& with(const std::string& path) {
    const auto [entry, is_new] = headers_.try_emplace(path);
    if (!is_new) return entry->second;
    const auto text = texts_.find(path);
    if (text == texts_.end()) return entry->second;
    std::set<std::string> headers = other_includes(text->second);
    for (const std::string& include : project_includes(text->second)) {
      const std::set<std::string>& more = with(include);
      headers.insert(more.begin(), more.end());
    }
    return headers_[path] = std::move(headers);
  }

 private:
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::set<std::string>> headers_;
};

/// The names that follow this prefix, where it is no end of a longer word.
std::set<std::string> names_after(const std::string& code, const std::string& prefix) {
  const auto of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::set<std::string> names;
  for (std::size_t at = 0; (at = code.find(prefix, at)) != std::string::npos;) {
    const bool begins = at == 0 || !of_word(code[at - 1]);
    at += prefix.size();
    const auto end = std::find_if_not(code.begin() + static_cast<std::ptrdiff_t>(at), code.end(), of_word);
    if (begins && end != code.begin() + static_cast<std::ptrdiff_t>(at)) {
      names.emplace(code.begin() + static_cast<std::ptrdiff_t>(at), end);
    }
  }
  return names;
}

/// What a file with these headers uses without one that has it, in words; a name that the list above lacks, too.
std::vector<std::string> unincluded(const std::string& code, const std::set<std::string>& headers) {
  std::set<std::string> said;
  for (const std::string& name : names_after(code, "std::")) {
    const auto known = headers_of_names().find(name);
    if (known == headers_of_names().end()) {
      said.insert("std::" + name + " stands with no header in tests/includes_test.cpp");
      continue;
    }
    const bool included = std::any_of(known->second.begin(), known->second.end(),
                                      [&](const std::string& header) { return headers.count(header) != 0; });
    if (!included) said.insert("std::" + name + " wants #include <" + *known->second.begin() + ">");
  }
  for (const auto& [space, folder] : {std::pair{"fmt::", "fmt/"}, {"nlohmann::", "nlohmann/"}}) {
    const bool used = !names_after(code, space).empty();
    const bool included = std::any_of(headers.begin(), headers.end(),
                                      [&](const std::string& header) { return header.starts_with(folder); });
    if (used && !included) said.insert(std::string(space) + " wants a header of <" + folder + "...>");
  }
  return {said.begin(), said.end()};
}

}  // namespace

TEST_CASE("a file has a header for each name of the standard library and of fmt that it uses") {
  const std::vector<Source> all = sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"});
  Includes includes(all);
  for (const Source& source : all) {
    for (const std::string& why : unincluded(code_of(source.text), includes.with(source.path))) {
      FAIL_CHECK(source.path, ": ", why);
    }
  }
}

TEST_CASE("names stand with each header that is read once for all sources of a target") {
  std::ifstream file(MESHBED_SOURCE_DIR "/cmake/unity.cmake");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::smatch list;
  REQUIRE(std::regex_search(text, list, std::regex("set\\(precompiled_headers ([^)]*)\\)")));
  std::istringstream headers(list[1]);
  for (std::string header; headers >> header;) {
    const bool known = std::any_of(std::begin(kStandardHeaders), std::end(kStandardHeaders),
                                   [&](const Header& standard) { return standard.name == header; });
    CHECK_MESSAGE((known || header == "fmt/format.h"), header);
  }
}

TEST_CASE("a header that is missing is found, also if another file includes it") {
  Includes includes({{"a.h", "#include <vector>\n#include <stdint.h>\n"}, {"b.h", "#include \"a.h\"\n"}});
  CHECK(includes.with("b.h") == std::set<std::string>{"cstdint", "vector"});
  CHECK(unincluded("std::vector<std::uint8_t> bytes;", includes.with("b.h")).empty());
  CHECK(unincluded("std::map<int, int> m;", includes.with("b.h")) ==
        std::vector<std::string>{"std::map wants #include <map>"});
  CHECK(unincluded("my_std::map<int, int> m; nostd::list<int> n;", includes.with("b.h")).empty());
  CHECK(unincluded("fmt::print(\"\");", {"vector"}) == std::vector<std::string>{"fmt:: wants a header of <fmt/...>"});
  CHECK(unincluded("std::no_such;", {"vector"}) ==
        std::vector<std::string>{"std::no_such stands with no header in tests/includes_test.cpp"});
}

// Those of the product that a source has first compile alone wherever sources are compiled one by one (the stage
// other-compiler; tests/tidy_test.cpp holds that it is first). The standard library's headers are read once for all of
// them: what of it a header lacks, the first case says.
TEST_CASE("every header compiles alone") {
  const std::string folder = scratch_folder("includes");
  const std::string compiler = "cd '" MESHBED_SOURCE_DIR
                               "' && g++ -std=gnu++20 -Wall -Wextra -I. -Iplugin/dropin -Itestbed/include "
                               "-I'" MESHBED_BINARY_DIR
                               "/tests/perfetto' "
                               "-D__device__= -Wno-unknown-pragmas "  // .cu files' alone
                               "-DTOML_HEADER_ONLY=0 -DMESHBED_BINARY_DIR='\"b\"' -DMESHBED_SOURCE_DIR='\"s\"' ";
  std::ofstream precompiled(folder + "/standard.h");
  for (const Header& header : kStandardHeaders) precompiled << "#include <" << header.name << ">\n";
  precompiled.close();
  const CommandResult made =
      run_command_line(compiler + "-x c++-header '" + folder + "/standard.h' -o '" + folder + "/standard.h.gch' 2>&1");
  REQUIRE_MESSAGE(made.status == 0, made.output);
  std::vector<std::string> headers;
  for (const Source& source : sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"})) {
    if (!source.path.ends_with(".h")) continue;
    const std::string own = source.path.substr(0, source.path.size() - 2) + ".cpp";
    if (source.path.starts_with("tests/") || !std::filesystem::exists(MESHBED_SOURCE_DIR "/" + own)) {
      headers.push_back(source.path);
    }
  }
  for (const std::string& header : walk(headers, 5)) {
    if (header.starts_with("tests/perfetto/") &&
        !std::filesystem::exists(MESHBED_BINARY_DIR "/tests/perfetto/trace.pb.h")) {
      MESSAGE("skipped: ", header, ": what protoc makes for it comes with the perfetto suite");
      continue;
    }
    const CommandResult result = run_command_line("echo '#include \"" + header + "\"' | (" + compiler +
                                                  "-fsyntax-only -include '" + folder + "/standard.h' -x c++ -) 2>&1");
    CHECK_MESSAGE(result.status == 0, header, ":\n", result.output);
  }
}

}  // namespace includes_test
