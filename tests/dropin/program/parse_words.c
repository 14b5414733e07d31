/* Parses command lines with getopt_long(3), all ranks one option at a time, and prints what it found. Compiled as a
 * position-independent program it holds copies of optarg, optind, opterr, optopt, environ and stdout. Alone, without
 * RANK, it prints what libc's own functions make of the same words. */
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char** environ;
static int loud, rank;

/* With each answer, the word behind it, which libc has not moved yet. "+" takes the word behind it as its own. */
static void parse(const char* title, int count, char** words, const char* letters) {
  static const struct option kNames[] = {{"size", required_argument, NULL, 's'},
                                         {"loud", no_argument, &loud, 1},
                                         {"name", optional_argument, NULL, 'n'},
                                         {0}};
  int answer, name = -1;
  fprintf(stdout, "%s:", title);
  while ((answer = getopt_long(count, words, letters, kNames, &name)) != -1) {
    MPI_Barrier(MPI_COMM_WORLD);  // every rank is in the middle of its words
    fprintf(stdout, " %c=%s", answer == 0 ? '0' : answer, optarg != NULL ? optarg : "-");
    if (answer == '?') fprintf(stdout, "(%c)", optopt);
    if (answer == 'p' && optind < count) fprintf(stdout, "%s", words[optind++]);
    fprintf(stdout, "[%s]", optind < count ? words[optind] : "");
  }
  fprintf(stdout, " name %d loud %d, then", name, loud);
  for (int at = optind; at < count; ++at) fprintf(stdout, " %s", words[at]);
  fprintf(stdout, "\n");
  fflush(stdout);
}

int main(int count, char** words) {
  const char* const number = getenv("RANK") != NULL ? getenv("RANK") : getenv("AS_RANK");
  rank = atoi(number);
  MPI_Init(&count, &words);
  char size[16], letter[16], text[32];
  snprintf(size, sizeof(size), "%d", 100 + rank);
  snprintf(letter, sizeof(letter), "-vn%d", rank);
  opterr = 0;
  parse("given", count, words, "n:v");
  char* mixed[] = {words[0], "free", letter,     "--size", size,   "-p", "own",
                   "--loud", "more", "--size=7", "-x",     "last", NULL};
  optind = 1;
  loud = 0;
  parse("mixed", 12, mixed, "n:vp");
  char* again[] = {words[0], "-v", "first", "-v", "--", "-v", NULL};
  optind = 0;
  parse("stops at the first", 6, again, "+v");
  optind = 3;
  parse("from the third", 6, again, "v");
  char* alike[] = {words[0], "-v", "-n", NULL};
  optind = 0;
  parse("lacks a value", 3, alike, ":n:v");

  int found = 0;
  snprintf(text, sizeof(text), "%s=%s", getenv("RANK") != NULL ? "RANK" : "AS_RANK", number);
  for (char** at = environ; *at != NULL; ++at) found += strcmp(*at, text) == 0;
  setenv("LATER", number, 1);
  snprintf(text, sizeof(text), "LATER=%s", number);
  for (char** at = environ; *at != NULL; ++at) found += strcmp(*at, text) == 0;
  printf("%d of 2 variables\n", found);
  MPI_Finalize();
  return 0;
}
