/*
 * Both ends of a plain call, in C, so that they take next to nothing of the core that they share: a provider of chat completions, which
 * gives each request the same answer, and callers that ask again as soon as they are answered.
 *
 *   ends mock                                              writes its port, then answers until it is killed
 *   ends load <port> <path> <key> <model> <callers> <calls> <seconds>
 *                                                          writes how many calls were answered, how many of them wrongly, and the seconds
 *
 * Requests and answers have a content length; an answer may be chunked. Built and started by compare.ts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { max_message = 64 * 1024, max_connections = 4096, max_events = 256 };

/* What arrived of the message that a connection is reading. */
struct connection {
  size_t length;
  char bytes[max_message];
};

static struct connection *connections[max_connections];
static const char said[] = "It is sunny in Paris, and no umbrella is needed today.";

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void watch(int events, int descriptor) {
  int on = 1;
  struct epoll_event wanted = {.events = EPOLLIN, .data.fd = descriptor};
  if (descriptor >= max_connections) fail("too many connections");
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connections[descriptor] == NULL) connections[descriptor] = malloc(sizeof *connections[descriptor]);
  if (connections[descriptor] == NULL) fail("malloc");
  connections[descriptor]->length = 0;
  if (epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &wanted) < 0) fail("epoll_ctl");
}

/* Reads on. Returns 0 once the other side has closed. */
static int receive(int descriptor) {
  struct connection *one = connections[descriptor];
  ssize_t got = read(descriptor, one->bytes + one->length, max_message - 1 - one->length);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
  if (got <= 0) return 0;
  one->length += (size_t)got;
  one->bytes[one->length] = '\0';
  return 1;
}

/* Returns the bytes of the whole message at hand; 0 while it is not whole. A request without a length has no body, an answer has chunks. */
static size_t message_length(const struct connection *one, int is_request) {
  const char *end = strstr(one->bytes, "\r\n\r\n");
  if (end == NULL) return 0;
  size_t head = (size_t)(end - one->bytes) + 4;
  const char *length = strcasestr(one->bytes, "\r\ncontent-length:");
  if (length != NULL && length < end) {
    size_t whole = head + strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    return one->length >= whole ? whole : 0;
  }
  if (is_request) return head;
  const char *last = strstr(end, "\r\n0\r\n\r\n");
  return last == NULL ? 0 : (size_t)(last - one->bytes) + strlen("\r\n0\r\n\r\n");
}

static void send_all(int descriptor, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t sent = send(descriptor, bytes, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return; /* The other side is gone: what it waited for is no longer wanted. */
    bytes += sent;
    length -= (size_t)sent;
  }
}

/* Answers as https://platform.openai.com/docs/api-reference/chat/object has it. */
static void mock(void) {
  static char body[2048], answer[4096];
  snprintf(body, sizeof body,
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1764000000,\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{"
           "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,"
           "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":30,\"total_tokens\":54,"
           "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
           "\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}},\"service_tier\":\"default\","
           "\"system_fingerprint\":\"fp_1\"}",
           said);
  size_t length = (size_t)snprintf(answer, sizeof answer,
                                   "HTTP/1.1 200 OK\r\nDate: Fri, 27 Nov 2026 10:00:00 GMT\r\nContent-Type: application/json\r\n"
                                   "Content-Length: %zu\r\nx-request-id: req_1\r\nopenai-processing-ms: 100\r\n\r\n%s",
                                   strlen(body), body);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 512) < 0) fail("listen");
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  int events = epoll_create1(0);
  watch(events, listener);
  for (;;) {
    struct epoll_event ready[max_events];
    int count = epoll_wait(events, ready, max_events, -1);
    for (int at = 0; at < count; at++) {
      int descriptor = ready[at].data.fd;
      if (descriptor == listener) {
        int accepted = accept(listener, NULL, NULL);
        if (accepted >= 0) watch(events, accepted);
        continue;
      }
      struct connection *one = connections[descriptor];
      if (!receive(descriptor)) {
        close(descriptor);
        continue;
      }
      for (;;) {
        size_t whole = message_length(one, 1);
        if (whole == 0) break;
        one->length -= whole;
        memmove(one->bytes, one->bytes + whole, one->length + 1);
        send_all(descriptor, answer, length);
      }
    }
  }
}

static void load(char **given) {
  int port = atoi(given[0]), callers = atoi(given[4]);
  long most = atol(given[5]), done = 0, wrong = 0;
  double seconds = atof(given[6]);
  static char body[4096], request[8192];
  snprintf(body, sizeof body,
           "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},{\"role\":\"user\",\"content\":"
           "\"What is the weather like in Paris today, and should I take an umbrella with me?\"}],\"temperature\":0.7,\"max_tokens\":256}",
           given[3]);
  size_t length = (size_t)snprintf(request, sizeof request,
                                   "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                                   "Accept: application/json\r\nUser-Agent: OpenAI/JS 7.55.0\r\nContent-Length: %zu\r\n\r\n%s",
                                   given[1], port, given[2], strlen(body), body);
  int events = epoll_create1(0);
  double began = now();
  for (int at = 0; at < callers; at++) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(port);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    watch(events, descriptor);
    send_all(descriptor, request, length);
  }
  while (done < most && now() - began < seconds) {
    struct epoll_event ready[max_events];
    int count = epoll_wait(events, ready, max_events, 10000);
    if (count == 0) fail("no answer within ten seconds");
    for (int at = 0; at < count; at++) {
      int descriptor = ready[at].data.fd;
      struct connection *one = connections[descriptor];
      if (!receive(descriptor)) fail("a connection was closed");
      if (message_length(one, 0) == 0) continue;
      done++;
      if (strncmp(one->bytes, "HTTP/1.1 200 ", 13) != 0 || strstr(one->bytes, said) == NULL) wrong++;
      one->length = 0;
      send_all(descriptor, request, length);
    }
  }
  printf("%ld %ld %.6f\n", done, wrong, now() - began);
}

int main(int count, char **given) {
  if (count == 2 && strcmp(given[1], "mock") == 0) mock();
  else if (count == 9 && strcmp(given[1], "load") == 0) load(given + 2);
  else return 2;
  return 0;
}
