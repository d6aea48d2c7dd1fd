/* Sockets, and HTTP/1.1 messages as they come: with a length, in chunks, or until the other side closes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"

struct connection connections[max_connections];
static int events;

double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

void fail(const char *what) {
  if (errno != 0) perror(what);
  else fprintf(stderr, "%s\n", what);
  exit(1);
}

void start_watching(void) {
  events = epoll_create1(0);
  if (events < 0) fail("epoll_create1");
}

int wait_for_events(struct epoll_event *ready, double due) {
  double left = due - now();
  if (left < 0) left = 0;
  struct timespec limit = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
  int count = epoll_pwait2(events, ready, max_events, &limit, NULL);
  if (count < 0 && errno != EINTR) fail("epoll_pwait2");
  return count < 0 ? 0 : count;
}

static void wish(int descriptor, int how, uint32_t wanted) {
  struct epoll_event event = {.events = wanted, .data.fd = descriptor};
  if (epoll_ctl(events, how, descriptor, &event) < 0) fail("epoll_ctl");
}

void watch(int descriptor) {
  int on = 1;
  struct connection *one = &connections[descriptor];
  if (descriptor >= max_connections) fail("too many connections");
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  *one = (struct connection){.bytes = one->bytes, .capacity = one->capacity};
  wish(descriptor, EPOLL_CTL_ADD, EPOLLIN);
}

void hang_up(int descriptor) {
  close(descriptor);
}

int receive(int descriptor) {
  struct connection *one = &connections[descriptor];
  if (one->capacity - one->length < 4096) {
    one->capacity = one->capacity == 0 ? 16384 : one->capacity * 2;
    one->bytes = realloc(one->bytes, one->capacity);
    if (one->bytes == NULL) fail("realloc");
  }
  ssize_t got = read(descriptor, one->bytes + one->length, one->capacity - one->length);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
  if (got <= 0) return 0;
  one->length += (size_t)got;
  return 1;
}

static int take_head(struct connection *one, int is_request) {
  char *end = memmem(one->bytes, one->length, "\r\n\r\n", 4);
  if (end == NULL) return 0;
  end[3] = '\0';
  one->head = one->body = one->raw = (size_t)(end - one->bytes) + 4;
  const char *length = strcasestr(one->bytes, "\r\ncontent-length:");
  const char *encoding = strcasestr(one->bytes, "\r\ntransfer-encoding:");
  one->left = length == NULL ? 0 : strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
  one->framing = encoding != NULL ? by_chunks : length != NULL || is_request ? by_length : by_close;
  return 1;
}

/* Moves what has come of the body, or of its chunk, to the rest of the body. */
static void take_body(struct connection *one) {
  size_t come = one->length - one->raw;
  if (one->framing != by_close && come > one->left) come = one->left;
  if (one->body != one->raw) memmove(one->bytes + one->body, one->bytes + one->raw, come);
  one->body += come;
  one->raw += come;
  if (one->framing != by_close) one->left -= come;
}

static int take_chunks(struct connection *one) {
  for (;;) {
    take_body(one);
    if (one->left > 0) return 0;
    /* A line ends the chunk before, except at the start; then comes the size of the next. */
    char *line = one->bytes + one->raw, *end = memchr(line, '\n', one->length - one->raw);
    if (end == NULL) return 0;
    one->raw += (size_t)(end - line) + 1;
    int is_empty = end - line <= 1;
    if (one->is_last_chunk && is_empty) return 1;
    if (one->is_last_chunk || is_empty) continue;
    char *behind;
    one->left = strtoul(line, &behind, 16);
    if (behind == line) return -1;
    one->is_last_chunk = one->left == 0;
  }
}

int take_apart(struct connection *one, int is_request) {
  if (one->head == 0 && !take_head(one, is_request)) return 0;
  if (one->framing == by_chunks) return take_chunks(one);
  take_body(one);
  return one->framing == by_length && one->left == 0;
}

void next_message(struct connection *one) {
  one->length -= one->raw;
  memmove(one->bytes, one->bytes + one->raw, one->length);
  one->head = one->body = one->raw = one->left = 0;
  one->is_last_chunk = 0;
}

void flush(int descriptor) {
  struct connection *one = &connections[descriptor];
  while (one->out_length > 0) {
    ssize_t sent = send(descriptor, one->out, one->out_length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) one->out_length = 0; /* The other side is gone, as the next read will say. */
    else {
      one->out += sent;
      one->out_length -= (size_t)sent;
    }
  }
  int waits = one->out_length > 0;
  if (waits != one->waits_to_write) wish(descriptor, EPOLL_CTL_MOD, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  one->waits_to_write = waits;
}

void send_bytes(int descriptor, const char *bytes, size_t length) {
  struct connection *one = &connections[descriptor];
  if (one->out_length == 0) one->out = bytes;
  one->out_length += length;
  if (!one->waits_to_write) flush(descriptor);
}

void read_texts(FILE *file, struct text *texts, int count) {
  for (int at = 0; at < count; at++)
    if (fscanf(file, "%zu", &texts[at].length) != 1) fail("a length is missing in the file");
  if (fgetc(file) != '\n') fail("a line is too long in the file");
  size_t length = 0;
  for (int at = 0; at < count; at++) length += texts[at].length;
  char *bytes = malloc(length + 1);
  if (bytes == NULL || fread(bytes, 1, length, file) != length) fail("the file is too short");
  for (int at = 0; at < count; at++) {
    texts[at].at = bytes;
    bytes += texts[at].length;
  }
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int listen_on_loopback(int *port) {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(descriptor, (struct sockaddr *)&address, size) < 0 || listen(descriptor, 4096) < 0) fail("listen");
  getsockname(descriptor, (struct sockaddr *)&address, &size);
  *port = ntohs(address.sin_port);
  return descriptor;
}

int connect_to_loopback(int port) {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = loopback(port);
  if (descriptor < 0) fail("socket");
  if (connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
  return descriptor;
}
