/* A provider: gives each request one of the answers in its file, whole or a piece at a time, and reads nothing else of it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ends.h"

enum { chat, chat_stream, chat_stream_with_usage, messages, messages_stream, answer_count };

/* Its pieces stand one behind the other, so that all can be sent as one. */
struct answer {
  double interval; /* Seconds between two pieces; 0: as fast as they are taken. */
  size_t length;
  int count;
  struct text *pieces;
};
static struct answer answers[answer_count];

/* What a connection has yet to send at a time; those that wait are linked by the time at which they are due. */
struct sending {
  const struct answer *answer; /* NULL where nothing is under way. */
  int next;
  double due;
  int before, after;
};
static struct sending sendings[max_connections];
static int first = -1, last = -1;

static void link_by_due(int descriptor) {
  struct sending *one = &sendings[descriptor];
  int before = last;
  while (before >= 0 && sendings[before].due > one->due) before = sendings[before].before;
  one->before = before;
  one->after = before < 0 ? first : sendings[before].after;
  if (before < 0) first = descriptor;
  else sendings[before].after = descriptor;
  if (one->after < 0) last = descriptor;
  else sendings[one->after].before = descriptor;
}

static void unlink_sending(int descriptor) {
  struct sending *one = &sendings[descriptor];
  if (one->answer == NULL) return;
  if (one->before < 0) first = one->after;
  else sendings[one->before].after = one->after;
  if (one->after < 0) last = one->before;
  else sendings[one->after].before = one->before;
  one->answer = NULL;
}

static void send_piece(int descriptor, const struct answer *answer, int index, double due) {
  send_bytes(descriptor, answer->pieces[index].at, answer->pieces[index].length);
  if (index + 1 == answer->count) return;
  sendings[descriptor] = (struct sending){.answer = answer, .next = index + 1, .due = due + answer->interval};
  link_by_due(descriptor);
}

static void send_what_is_due(void) {
  while (first >= 0 && sendings[first].due <= now()) {
    int descriptor = first;
    struct sending one = sendings[descriptor];
    unlink_sending(descriptor);
    send_piece(descriptor, one.answer, one.next, one.due);
  }
}

/* Whether a member is true, however the text is spaced. What stands in a string would have its quotes escaped. */
static int is_true(const char *at, const char *end, const char *quoted) {
  while ((at = memmem(at, (size_t)(end - at), quoted, strlen(quoted))) != NULL) {
    at += strlen(quoted);
    while (at < end && strchr(" \n\r\t", *at) != NULL) at++;
    if (at >= end || *at != ':') continue;
    for (at++; at < end && strchr(" \n\r\t", *at) != NULL; at++) continue;
    if (end - at >= 4 && memcmp(at, "true", 4) == 0) return 1;
  }
  return 0;
}

static const struct answer *answer_to(const struct connection *one) {
  const char *body = one->bytes + one->head, *end = one->bytes + one->body;
  const char *line_end = strstr(one->bytes, "\r\n");
  int is_stream = is_true(body, end, "\"stream\"");
  if (memmem(one->bytes, (size_t)(line_end - one->bytes), "/messages", 9) != NULL) return &answers[is_stream ? messages_stream : messages];
  if (!is_stream) return &answers[chat];
  return &answers[is_true(body, end, "\"include_usage\"") ? chat_stream_with_usage : chat_stream];
}

static void take_requests(int descriptor) {
  struct connection *one = &connections[descriptor];
  if (!receive(descriptor)) {
    unlink_sending(descriptor);
    hang_up(descriptor);
    return;
  }
  while (take_apart(one, 1) == 1) {
    const struct answer *answer = answer_to(one);
    next_message(one);
    if (answer->interval > 0) send_piece(descriptor, answer, 0, now());
    else send_bytes(descriptor, answer->pieces[0].at, answer->length);
  }
}

static void read_answers(const char *name) {
  FILE *file = fopen(name, "r");
  if (file == NULL) fail(name);
  for (int at = 0; at < answer_count; at++) {
    struct answer *answer = &answers[at];
    if (fscanf(file, "%lf %d", &answer->interval, &answer->count) != 2) fail("the file of answers is too short");
    answer->pieces = calloc((size_t)answer->count, sizeof *answer->pieces);
    if (answer->pieces == NULL) fail("calloc");
    read_texts(file, answer->pieces, answer->count);
    for (int piece = 0; piece < answer->count; piece++) answer->length += answer->pieces[piece].length;
  }
  fclose(file);
}

void mock(const char *file) {
  int port, listener = listen_on_loopback(&port);
  read_answers(file);
  printf("%d\n", port);
  fflush(stdout);
  watch(listener);
  for (;;) {
    struct epoll_event ready[max_events];
    int count = wait_for_events(ready, first < 0 ? now() + 3600 : sendings[first].due);
    for (int at = 0; at < count; at++) {
      int descriptor = ready[at].data.fd, accepted;
      if (descriptor == listener) {
        if ((accepted = accept(listener, NULL, NULL)) >= 0) watch(accepted);
        continue;
      }
      if (ready[at].events & EPOLLOUT) flush(descriptor);
      if (ready[at].events & ~(uint32_t)EPOLLOUT) take_requests(descriptor);
    }
    send_what_is_due();
  }
}
