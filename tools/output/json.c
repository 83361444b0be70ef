/* Facts for programs, made with jansson. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../talk/talk.h"
#include "json.h"

enum { NUMBERS = JSON_REAL_PRECISION(15) };

json_t *json_escaped(const void *bytes, size_t n)
{
    char *text = escape(bytes, n);
    json_t *value = json_string(text);

    free(text);
    return memory_or_exit(value);
}

json_t *json_hex(const void *bytes, size_t n)
{
    char *text = hex(bytes, n);
    json_t *value = json_string(text);

    free(text);
    return memory_or_exit(value);
}

json_t *json_count(uint64_t n)
{
    char digits[24];

    if (n <= INT64_MAX)
        return memory_or_exit(json_integer((json_int_t)n));
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    return memory_or_exit(json_string(digits));
}

json_t *json_number(double x)
{
    json_t *value = json_real(x);

    return memory_or_exit(value ? value : json_null()); /* no words for infinity */
}

void json_put(json_t *object, const char *key, json_t *value)
{
    int failed = json_is_array(object) ? json_array_append_new(object, value)
                                       : json_object_set_new(object, key, value);

    memory_or_exit(failed ? NULL : object);
}

static void print(json_t *value, size_t flags)
{
    /* finish_output() reports a failure of stdout. */
    if (json_dumpf(value, stdout, flags) == 0)
        putchar('\n');
    json_decref(value);
}

void json_print(json_t *value)
{
    print(value, JSON_INDENT(2) | NUMBERS);
}

void json_print_line(json_t *value)
{
    print(value, JSON_COMPACT | NUMBERS);
}

const char json_help[] =
    "--json prints one JSON value; probe prints one object per line instead. See\n"
    "tamis-json(5) for the fields of each command, and which are stable.\n"
    "\n"
    "  build, drop    {segments: [{segment, state, keys, bytes, error}], keys, bytes}\n"
    "  grow           {segment, keys_read, keys, bytes, error, watermark, ...}\n"
    "  probe          {key, answer, candidates: [{segment, reason}]}\n"
    "    --count      {keys, pairs, maybe_pairs, absent_pairs, absent_keys}\n"
    "  ls             [{segment, state, keys, bytes, error, ...}]\n"
    "  stat           {store, segments, keys, ..., details: [as ls, and stages]}\n"
    "  verify         {segments: [{segment, result, ...}], damaged_segments, ...}\n"
    "  repair         {findings: [{action, segment, file, what, ...}], ...}\n"
    "  backup         {findings: [as repair's], segments, files, bytes, ...}\n"
    "  file show      {file, offset, fields: [{record, name, value, ...}]}\n"
    "  file probe     as probe; file verify: one of verify's segments\n"
    "  plan           {keys, error, lanes, words, blocks, file_bytes, ...}\n"
    "\n"
    "Names, keys and file names are strings with the same \\xHH escapes as in the\n"
    "text output (and \\x5c for a backslash), so any bytes can be recovered.\n"
    "UUIDs, bindings and seeds are hex digits. Counts from 2^63 on are strings of\n"
    "digits. Errors are fractions, times microseconds since 1970. Fields that do\n"
    "not apply are left out.\n"
    "\n"
    "Example:\n"
    "  tamis ls store --json | jq '.[] | select(.state == \"growing\") | .segment'\n";
