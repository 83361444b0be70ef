/* Facts for programs. */
#ifndef TAMIS_JSON_H
#define TAMIS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

json_t *json_escaped(const void *bytes, size_t n); /* NULL: null */
json_t *json_text(const char *text);               /* escaped, too */
json_t *json_hex(const void *bytes, size_t n);
json_t *json_count(uint64_t n); /* a string of digits from 2^63 on */
json_t *json_number(double x);  /* null if not finite */
/* Adds and takes over the value; dies if memory is short. */
void json_put(json_t *object, const char *key, json_t *value);
json_t *json_put_all(json_t *object, const char *name, ...);
/* The same for names and values by turns: of an object that there is, or a new one. */
#define json_add(object, ...) json_put_all(object, __VA_ARGS__, NULL)
#define json_of(...)          json_add(json_object(), __VA_ARGS__)
void json_print(json_t *value); /* takes it over; indented, newline */
/* An array that json_put() prints while it is made, so that its length costs no memory:
 * of itself (NULL), or the next field of an object, after these fields; all are taken
 * over. One at a time. An array that json_end() did not end shows that it was cut. */
json_t *json_stream(json_t *fields, const char *name);
json_t *json_stream_line(json_t *fields, const char *name); /* all of it in a line */
void json_end(json_t *fields); /* the last ones; NULL: there is none */
extern const char json_help[];

#endif
