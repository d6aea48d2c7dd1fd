#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "ends.h"

static const char usage[] =
    "ends mock <answers>    writes its port, then answers until it is killed: each request with one of the file's five answers: to chat\n"
    "                       completions plain, streamed, streamed with usage, to Messages plain, streamed\n"
    "ends load <option> …   makes calls, checks each answer, writes what came of it as JSON\n"
    "  --port <n>           of the server\n"
    "  --request <file>     the bytes of a request, head and body\n"
    "  --expect <file>      what an answer must say: 1 where it is streamed or 0; the tokens of its prompt, how many\n"
    "                       of these need not be counted, and those of its completion; its text or fragments\n"
    "  --callers <n>        that call again as soon as they are answered, begun within --ramp <seconds>\n"
    "  --rate <n>           instead: so many calls a second, each at its time, over connections as needed\n"
    "  --calls <n>          at most\n"
    "  --seconds <n>        in which calls are begun\n"
    "  --id-at <n>          where twelve bytes of the request are that count the calls\n"
    "  --hold               instead: writes \"held\" when each caller has a first fragment, reads on until its input closes, and ends\n"
    "A file of texts has in its first line what is told of them, how many there are and the length of each; then they follow each other.\n"
    "What is told of an answer are the seconds between two of its pieces; 0: as fast as they are taken.\n";

int main(int count, char **given) {
  /* Two thousand streams at a time are more sockets than a shell's usual limit. */
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max < max_connections ? files.rlim_max : max_connections;
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  start_watching();
  if (count == 3 && strcmp(given[1], "mock") == 0) mock(given[2]);
  else if (count > 2 && strcmp(given[1], "load") == 0 && load(count - 1, given + 1)) return 0;
  fputs(usage, stderr);
  return 2;
}
