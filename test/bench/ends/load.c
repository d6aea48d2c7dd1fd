/* Callers: make calls at once or at a rate, check that each answer says what it must, and tell what they saw. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"

/* Seconds without any answer, after which the server has failed; and seconds after the last call in which all must be answered. */
static const double patience = 30, grace = 10, never = 1e18;
enum { id_digits = 12, max_busy = 8192 };

static struct {
  int port, hold;
  double rate, ramp, seconds;
  long callers, calls, id_at;
} options = {.calls = -1, .id_at = -1};

static struct {
  char *at;
  size_t length;
} request;

/* What an answer must say: its text, or the texts of its fragments. */
static struct {
  int is_stream, count;
  long prompt_tokens, cached_tokens, completion_tokens;
  struct text *texts;
} expected;

struct call {
  double due;
  int is_busy;
  size_t line;  /* Where the next line of a stream begins. */
  int next;     /* The fragment that is due. */
  int has_reason, is_done;
  char fault[200];
};
static struct call calls[max_connections];
static int idle[max_connections], idle_count;

static struct {
  long scheduled, planned, begun, answered, wrong, fragments, open_or_ended;
  int busy;
  char first_fault[200];
  /* Of calls at a rate to their end, of streams else to their first fragment; in seconds. */
  double *latencies;
  size_t latency_count, latency_room;
} state;

static void note_latency(double seconds) {
  if (state.latency_count == state.latency_room) {
    state.latency_room = state.latency_room * 2 + 1024;
    state.latencies = realloc(state.latencies, state.latency_room * sizeof *state.latencies);
    if (state.latencies == NULL) fail("realloc");
  }
  state.latencies[state.latency_count++] = seconds;
}

/* Notes what is wrong with an answer; the first fault is the one that counts. */
__attribute__((format(printf, 2, 3))) static void fault(struct call *call, const char *format, ...) {
  if (call->fault[0] != '\0') return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(call->fault, sizeof call->fault, format, arguments);
  va_end(arguments);
}

/* How much of a foreign text is shown. */
static int shown(size_t length) {
  return length < 120 ? (int)length : 120;
}

static void check_reason(struct call *call, struct json choice) {
  static const struct text stop = {"stop", 4};
  struct json reason = json_member(choice, "finish_reason");
  if (!json_is_given(reason)) return;
  call->has_reason = json_says(reason, stop);
  if (!call->has_reason) fault(call, "finish_reason is not stop: %.*s", shown((size_t)(reason.end - reason.at)), reason.at);
}

static void check_plain(struct call *call, const char *body, const char *end) {
  struct json answer = json_of(body, end), usage = json_member(answer, "usage"), choice = json_first(json_member(answer, "choices"));
  long prompt = json_number(json_member(usage, "prompt_tokens")), completion = json_number(json_member(usage, "completion_tokens"));
  check_reason(call, choice);
  if (answer.at == NULL) fault(call, "no JSON: %.*s", shown((size_t)(end - body)), body);
  if (!json_says(json_member(json_member(choice, "message"), "content"), expected.texts[0]))
    fault(call, "another text: %.*s", shown((size_t)(end - body)), body);
  if (!call->has_reason) fault(call, "no finish_reason");
  /* Anthropic counts what was cached apart; some gateways leave it so. */
  int is_prompt_right = prompt == expected.prompt_tokens || prompt == expected.prompt_tokens - expected.cached_tokens;
  if (!is_prompt_right || completion != expected.completion_tokens)
    fault(call, "wrong usage: %ld and %ld instead of %ld and %ld", prompt, completion, expected.prompt_tokens, expected.completion_tokens);
}

/* An event of a stream: `data` as https://platform.openai.com/docs/api-reference/chat-streaming has it. */
static void check_event(struct call *call, const char *data, const char *end) {
  static const struct text nothing = {"", 0};
  if (call->is_done) fault(call, "an event behind the last one");
  if (end - data == 6 && memcmp(data, "[DONE]", 6) == 0) {
    call->is_done = 1;
    return;
  }
  struct json chunk = json_of(data, end), choice = json_first(json_member(chunk, "choices"));
  struct json content = json_member(json_member(choice, "delta"), "content");
  if (chunk.at == NULL) fault(call, "an event is no JSON: %.*s", shown((size_t)(end - data)), data);
  if (choice.at == NULL && json_is_given(json_member(chunk, "error")))
    fault(call, "an error in the stream: %.*s", shown((size_t)(end - data)), data);
  if (json_is_given(content) && !json_says(content, nothing)) {
    if (call->next >= expected.count || !json_says(content, expected.texts[call->next]))
      fault(call, "fragment %d is %.*s", call->next, shown((size_t)(content.end - content.at)), content.at);
    if (call->next++ == 0) {
      state.open_or_ended++;
      if (options.rate <= 0) note_latency(now() - call->due);
    }
    state.fragments++;
  }
  check_reason(call, choice);
}

/* Checks the lines of a stream that have come whole. */
static void check_lines(struct call *call, const struct connection *one) {
  if (call->line == 0) call->line = one->head;
  for (;;) {
    char *line = one->bytes + call->line, *end = memchr(line, '\n', one->body - call->line);
    if (end == NULL) return;
    call->line += (size_t)(end - line) + 1;
    if (end > line && end[-1] == '\r') end--;
    if (end - line >= 5 && memcmp(line, "data:", 5) == 0) {
      line += 5;
      if (line < end && *line == ' ') line++;
      check_event(call, line, end);
    } else if (end > line && *line != ':' && memchr(line, ':', (size_t)(end - line)) == NULL)
      fault(call, "a line that is no field: %.*s", shown((size_t)(end - line)), line);
  }
}

static void check_stream(struct call *call, const struct connection *one) {
  check_lines(call, one);
  if (call->line != one->body) fault(call, "the stream ends within an event");
  if (call->next != expected.count) fault(call, "%d of %d fragments came", call->next, expected.count);
  if (!call->has_reason) fault(call, "no finish_reason");
  if (!call->is_done) fault(call, "no [DONE]");
}

static int has_expected_head(struct call *call, const struct connection *one) {
  const char *type = expected.is_stream ? "\r\ncontent-type: text/event-stream" : "\r\ncontent-type: application/json";
  if (one->head < 13 || memcmp(one->bytes, "HTTP/1.1 200 ", 13) != 0) return 0;
  if (strcasestr(one->bytes, type) == NULL) fault(call, "no header like %s", type + 2);
  return 1;
}

static void check(struct call *call, const struct connection *one) {
  const char *body = one->bytes + one->head, *end = one->bytes + one->body;
  if (!has_expected_head(call, one))
    fault(call, "status %.*s: %.*s", one->head < 13 ? 0 : 3, one->bytes + 9, shown((size_t)(end - body)), body);
  else if (expected.is_stream) check_stream(call, one);
  else check_plain(call, body, end);
}

static int connection_for_call(void) {
  if (idle_count > 0) return idle[--idle_count];
  int descriptor = connect_to_loopback(options.port);
  watch(descriptor);
  return descriptor;
}

static void begin(double due) {
  int descriptor = connection_for_call();
  calls[descriptor] = (struct call){.due = due, .is_busy = 1};
  if (options.id_at >= 0) {
    /* All calls send these bytes: of the one before, the head at least has gone, as an idle socket takes more than that at once. */
    char digits[id_digits + 1];
    snprintf(digits, sizeof digits, "%0*ld", id_digits, state.begun);
    memcpy(request.at + options.id_at, digits, id_digits);
  }
  state.begun++;
  state.busy++;
  send_bytes(descriptor, request.at, request.length);
}

/* Counts a call that has ended. */
static void end(struct call *call) {
  if (options.rate > 0) note_latency(now() - call->due);
  state.answered++;
  if (call->next == 0) state.open_or_ended++;
  if (call->fault[0] != '\0' && state.wrong++ == 0) memcpy(state.first_fault, call->fault, sizeof call->fault);
  call->is_busy = 0;
  state.busy--;
}

static void leave(int descriptor) {
  for (int at = 0; at < idle_count; at++)
    if (idle[at] == descriptor) idle[at] = idle[--idle_count];
  hang_up(descriptor);
}

/* Reads on. Returns 1 where a call has ended by it. */
static int take_answer(int descriptor) {
  struct connection *one = &connections[descriptor];
  struct call *call = &calls[descriptor];
  int is_open = receive(descriptor), whole = take_apart(one, 0), was_busy = call->is_busy;
  if (!is_open && whole == 0 && one->framing == by_close && one->head > 0) whole = 1;
  if (call->is_busy && whole == 0 && is_open) {
    if (expected.is_stream && one->head > 0 && one->bytes[9] == '2') check_lines(call, one);
    return 0;
  }
  if (call->is_busy) {
    if (whole < 0) fault(call, "broken chunks");
    else if (whole == 0) fault(call, "the connection was closed before the answer's end");
    else check(call, one);
    end(call);
  }
  int goes_on = is_open && whole == 1 && one->framing != by_close && one->out_length == 0 &&
                strcasestr(one->bytes, "\r\nconnection: close") == NULL;
  if (!goes_on) leave(descriptor);
  else {
    next_message(one);
    idle[idle_count++] = descriptor;
  }
  return was_busy;
}

/* When the next call is due that no answer brings about: each at a rate, otherwise the first one of each caller. */
static double next_due(double began) {
  if (state.scheduled >= state.planned || state.busy >= max_busy) return never;
  return began + (double)state.scheduled * (options.rate > 0 ? 1 / options.rate : options.ramp / (double)state.planned);
}

/* Reads on, and begins the next call where a caller's last has been answered. */
static void take_event(struct epoll_event event, double deadline) {
  int descriptor = event.data.fd;
  if (event.events & EPOLLOUT) flush(descriptor);
  if ((event.events & ~(uint32_t)EPOLLOUT) == 0) return;
  if (!take_answer(descriptor) || options.rate > 0 || options.hold || now() >= deadline) return;
  if (options.calls < 0 || state.begun < options.calls) begin(now());
}

static void make_calls(double began) {
  double deadline = began + options.seconds, last_event = began;
  int is_held = 0;
  for (;;) {
    double at = now(), due;
    while ((due = next_due(began)) <= at) {
      state.scheduled++;
      begin(due);
    }
    if (state.busy == 0 && state.scheduled >= state.planned) return;
    if (options.rate > 0 && at > deadline + grace) return;
    if (at > last_event + patience) fail("no answer within thirty seconds");
    if (options.hold && !is_held && state.open_or_ended >= options.callers) {
      puts("held");
      fflush(stdout);
      is_held = 1;
    }
    struct epoll_event ready[max_events];
    int count = wait_for_events(ready, due < at + 1 ? due : at + 1);
    if (count > 0) last_event = at;
    for (int index = 0; index < count; index++) {
      if (ready[index].data.fd == STDIN_FILENO) return;
      take_event(ready[index], deadline);
    }
  }
}

static int by_value(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

/* Writes what came of the calls. What was not answered has taken at least until now. */
static void report(double began) {
  double ended = now();
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  long planned = options.rate > 0 ? state.planned : 0, unanswered = planned > state.answered ? planned - state.answered : 0;
  for (long at = planned - unanswered; at < planned; at++) note_latency(ended - began - (double)at / options.rate);
  size_t noted = state.latency_count;
  if (noted > 0) qsort(state.latencies, noted, sizeof *state.latencies, by_value);
  double p50 = noted == 0 ? 0 : state.latencies[noted / 2], p99 = noted == 0 ? 0 : state.latencies[noted * 99 / 100];
  for (char *at = state.first_fault; *at != '\0'; at++)
    if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') *at = *at == '"' ? '\'' : *at == '\n' ? ' ' : '?';
  printf("{\"calls\":%ld,\"fragments\":%ld,\"wrong\":%ld,\"unanswered\":%ld,\"seconds\":%.6f,\"cpuSeconds\":%.6f,\"p50\":%.6f,\"p99\":%.6f,"
         "\"fault\":\"%s\"}\n",
         state.answered, state.fragments, state.wrong, unanswered, ended - began, (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9, p50, p99,
         state.first_fault);
}

static void read_request(const char *name) {
  FILE *file = fopen(name, "r");
  if (file == NULL || fseek(file, 0, SEEK_END) < 0) fail(name);
  request.length = (size_t)ftell(file);
  request.at = malloc(request.length + 1);
  rewind(file);
  if (request.at == NULL || fread(request.at, 1, request.length, file) != request.length) fail(name);
  fclose(file);
}

static void read_expected(const char *name) {
  FILE *file = fopen(name, "r");
  if (file == NULL) fail(name);
  if (fscanf(file, "%d %ld %ld %ld %d", &expected.is_stream, &expected.prompt_tokens, &expected.cached_tokens, &expected.completion_tokens,
             &expected.count) != 5)
    fail("the file of what to expect is too short");
  expected.texts = calloc((size_t)expected.count, sizeof *expected.texts);
  if (expected.texts == NULL) fail("calloc");
  read_texts(file, expected.texts, expected.count);
  fclose(file);
}

static int read_options(int count, char **given) {
  static const struct option known[] = {
      {"port", required_argument, NULL, 'p'},    {"request", required_argument, NULL, 'q'}, {"expect", required_argument, NULL, 'e'},
      {"callers", required_argument, NULL, 'c'}, {"ramp", required_argument, NULL, 'a'},    {"rate", required_argument, NULL, 'r'},
      {"calls", required_argument, NULL, 'n'},   {"seconds", required_argument, NULL, 's'}, {"id-at", required_argument, NULL, 'i'},
      {"hold", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(count, given, "", known, NULL)) != -1;) {
    if (option == 'p') options.port = atoi(optarg);
    else if (option == 'q') read_request(optarg);
    else if (option == 'e') read_expected(optarg);
    else if (option == 'c') options.callers = atol(optarg);
    else if (option == 'a') options.ramp = atof(optarg);
    else if (option == 'r') options.rate = atof(optarg);
    else if (option == 'n') options.calls = atol(optarg);
    else if (option == 's') options.seconds = atof(optarg);
    else if (option == 'i') options.id_at = atol(optarg);
    else if (option == 'h') options.hold = 1;
    else return 0;
  }
  return optind == count && options.port > 0 && request.length > 0 && expected.count > 0 && (options.callers > 0 || options.rate > 0);
}

int load(int count, char **given) {
  if (!read_options(count, given)) return 0;
  state.planned = options.rate > 0 ? (long)(options.rate * options.seconds) : options.callers;
  if (options.rate <= 0 && options.calls >= 0 && options.calls < state.planned) state.planned = options.calls;
  if (options.hold) watch(STDIN_FILENO);
  double began = now();
  make_calls(began);
  report(began);
  return 1;
}
