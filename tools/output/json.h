/* Facts for programs. */
#ifndef TAMIS_JSON_H
#define TAMIS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

json_t *json_escaped(const void *bytes, size_t n);
json_t *json_hex(const void *bytes, size_t n);
json_t *json_count(uint64_t n); /* a string of digits from 2^63 on */
json_t *json_number(double x);  /* null if not finite */
/* Adds and takes over the value; dies if memory is short. */
void json_put(json_t *object, const char *key, json_t *value);
void json_print(json_t *value);      /* takes it over; indented, newline */
void json_print_line(json_t *value); /* the same in one line */
extern const char json_help[];

#endif
