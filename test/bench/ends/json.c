/* As much of JSON as tells what an answer says, whatever the order of its members, its whitespace and its escapes. */
#include <stdlib.h>
#include <string.h>

#include "ends.h"

enum { max_depth = 64 };

static const struct json none = {NULL, NULL};

static const char *skip_space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
  return at;
}

/* These return what is behind a value, or NULL where there is none. */
static const char *skip_string(const char *at, const char *end) {
  if (at >= end || *at != '"') return NULL;
  for (at++; at < end && *at != '"'; at++)
    if (*at == '\\') at++;
  return at < end ? at + 1 : NULL;
}

static const char *skip_name(const char *at, const char *end) {
  if ((at = skip_string(at, end)) == NULL) return NULL;
  at = skip_space(at, end);
  return at < end && *at == ':' ? skip_space(at + 1, end) : NULL;
}

/* Whether it may stand in a number, true, false or null. */
static int is_of_word(char one) {
  return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') || one == '-' || one == '+' || one == '.' || one == 'E';
}

static const char *skip_value(const char *at, const char *end, int depth) {
  if (at >= end || depth > max_depth) return NULL;
  if (*at == '"') return skip_string(at, end);
  if (*at != '{' && *at != '[') {
    const char *from = at;
    while (at < end && is_of_word(*at)) at++;
    return at > from ? at : NULL;
  }
  int is_object = *at == '{';
  char closing = is_object ? '}' : ']';
  at = skip_space(at + 1, end);
  if (at < end && *at == closing) return at + 1;
  for (;;) {
    if (is_object && (at = skip_name(at, end)) == NULL) return NULL;
    if ((at = skip_value(at, end, depth + 1)) == NULL) return NULL;
    at = skip_space(at, end);
    if (at < end && *at == closing) return at + 1;
    if (at >= end || *at != ',') return NULL;
    at = skip_space(at + 1, end);
  }
}

struct json json_of(const char *at, const char *end) {
  const char *value = skip_space(at, end), *behind = skip_value(value, end, 0);
  return behind != NULL && skip_space(behind, end) == end ? (struct json){value, end} : none;
}

struct json json_member(struct json object, const char *name) {
  const char *at = object.at, *end = object.end;
  size_t length = strlen(name);
  if (at == NULL || *at != '{') return none;
  do {
    at = skip_space(at + 1, end);
    int is_named = (size_t)(end - at) > length + 1 && at[length + 1] == '"' && memcmp(at + 1, name, length) == 0;
    if ((at = skip_name(at, end)) == NULL) return none;
    if (is_named) return (struct json){at, end};
    if ((at = skip_value(at, end, 0)) == NULL) return none;
    at = skip_space(at, end);
  } while (at < end && *at == ',');
  return none;
}

struct json json_first(struct json array) {
  if (array.at == NULL || *array.at != '[') return none;
  const char *at = skip_space(array.at + 1, array.end);
  return at < array.end && *at != ']' ? (struct json){at, array.end} : none;
}

static unsigned unit_of(const char *at, const char *end) {
  char digits[5] = {0};
  if (end - at < 4) return 0;
  memcpy(digits, at, 4);
  return (unsigned)strtoul(digits, NULL, 16);
}

/* Reads one character, escaped or not. Returns its bytes in UTF-8, and moves `at` behind it. */
static size_t character(const char **at, const char *end, char *bytes) {
  static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
  const char *from = *at;
  if (*from != '\\') {
    bytes[0] = *(*at)++;
    return 1;
  }
  *at += 2;
  if (from[1] != 'u') {
    const char *known = strchr(escapes, from[1]);
    bytes[0] = known == NULL ? from[1] : meant[known - escapes];
    return 1;
  }
  unsigned code = unit_of(*at, end);
  *at += 4;
  if (code >= 0xd800 && code < 0xdc00 && end - *at >= 6) {
    code = 0x10000 + ((code - 0xd800) << 10) + (unit_of(*at + 2, end) - 0xdc00);
    *at += 6;
  }
  size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t index = length - 1; index > 0; index--, code >>= 6) bytes[index] = (char)(0x80 | (code & 0x3f));
  bytes[0] = (char)(leads[length] | code);
  return length;
}

int json_says(struct json value, struct text text) {
  if (value.at == NULL || *value.at != '"') return 0;
  const char *at = value.at + 1, *said = text.at, *said_end = text.at + text.length;
  while (at < value.end && *at != '"') {
    char bytes[4];
    size_t length = character(&at, value.end, bytes);
    if ((size_t)(said_end - said) < length || bytes[0] != *said || (length > 1 && memcmp(said, bytes, length) != 0)) return 0;
    said += length;
  }
  return said == said_end;
}

int json_is_given(struct json value) {
  return value.at != NULL && *value.at != 'n';
}

long json_number(struct json value) {
  return value.at != NULL && strchr("0123456789", *value.at) != NULL ? strtol(value.at, NULL, 10) : -1;
}
