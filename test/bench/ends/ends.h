/*
 * Both ends of a call, in C, so that they take next to nothing of the cores that they share with what is measured: a provider, which gives
 * each request the answer that it was given for it, and callers, which check every answer. Linux only; compare.ts builds and starts them.
 */
#ifndef ENDS_H
#define ENDS_H

#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>

enum { max_connections = 16384, max_events = 256 };

struct text {
  const char *at;
  size_t length;
};

enum framing { by_length, by_chunks, by_close };

/* A socket with the message that it is reading, and what it has yet to write. */
struct connection {
  char *bytes;
  size_t length, capacity;
  size_t head; /* Where the body begins; 0 while the head is not whole. It ends in a NUL. */
  size_t body; /* Where what has come of the body ends, its chunks joined. */
  size_t raw;  /* Where what is not taken apart yet begins. */
  size_t left; /* Bytes to come of the body, or of its chunk. */
  enum framing framing;
  int is_last_chunk;
  const char *out;
  size_t out_length;
  int waits_to_write;
};

extern struct connection connections[max_connections];

/* connection.c */
double now(void);
void fail(const char *what);
void start_watching(void);
/* Waits for what happens, until `due` (by `now`) at most. Returns how many events there are. */
int wait_for_events(struct epoll_event *ready, double due);
void watch(int descriptor);
void hang_up(int descriptor);
/* Reads on. Returns 0 once the other side has closed. */
int receive(int descriptor);
/* Takes apart what has come. Returns 1 once the message is whole, 0 while it is not, -1 where it is no HTTP. */
int take_apart(struct connection *one, int is_request);
/* Gets ready for the message behind the one that is whole. */
void next_message(struct connection *one);
/* Writes on; what the socket doesn't take waits until it does. The bytes must stay until then, and behind them only what follows them. */
void send_bytes(int descriptor, const char *bytes, size_t length);
void flush(int descriptor);
/* Reads texts that stand one behind the other, in the line before their lengths. */
void read_texts(FILE *file, struct text *texts, int count);
int listen_on_loopback(int *port);
int connect_to_loopback(int port);

/* json.c: a value begins at `at`, NULL where there is none, and ends somewhere before `end`. */
struct json {
  const char *at, *end;
};
/* The value that a text is; none where it is no JSON, or more than one value. */
struct json json_of(const char *at, const char *end);
struct json json_member(struct json object, const char *name);
struct json json_first(struct json array);
/* Whether it is a string that says this, however it is escaped. */
int json_says(struct json value, struct text text);
/* Whether there is something: neither missing nor null. */
int json_is_given(struct json value);
/* -1 where it is no number. */
long json_number(struct json value);

/* mock.c and load.c */
void mock(const char *file);
/* Returns 0 where the options are not what they must be. */
int load(int count, char **given);

#endif
