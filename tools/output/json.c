/* Facts for programs, made with jansson. */
#include <stdarg.h>

#include "../talk/talk.h"
#include "json.h"

enum { NUMBERS = JSON_REAL_PRECISION(15), LINES = JSON_INDENT(2) | NUMBERS };

static struct {
    json_t *array;        /* stands for the one that is printed; NULL: none is */
    bool is_field, begun; /* of an object; it has an element */
    bool is_line;         /* all in one line */
} stream;

static void print_element(json_t *value);

json_t *json_escaped(const void *bytes, size_t n)
{
    char *text = escape(bytes, n);
    json_t *value = bytes != NULL ? json_string(text) : json_null();
    free(text);
    return memory_or_exit(value);
}

json_t *json_text(const char *text)
{
    return json_escaped(text, strlen(text));
}

json_t *json_hex(const void *bytes, size_t n)
{
    char *text = memory_or_exit(malloc(2 * n + 1));
    json_t *value = json_string(hex_into(text, bytes, n));
    free(text);
    return memory_or_exit(value);
}

json_t *json_count(uint64_t n)
{
    char digits[24];
    if (n <= INT64_MAX)
        return memory_or_exit(json_integer((json_int_t)n));
    snprintf(digits, sizeof(digits), "%llu", LLU(n));
    return memory_or_exit(json_string(digits));
}

json_t *json_number(double x)
{
    json_t *value = json_real(x);
    return memory_or_exit(value ? value : json_null()); /* no words for infinity */
}

void json_put(json_t *object, const char *key, json_t *value)
{
    int failed = 0;
    if (object == stream.array)
        print_element(memory_or_exit(value));
    else if (json_is_array(object))
        failed = json_array_append_new(object, value);
    else
        failed = json_object_set_new(object, key, value);
    memory_or_exit(failed ? NULL : object);
}

json_t *json_put_all(json_t *object, const char *name, ...)
{
    va_list rest;
    memory_or_exit(object);
    va_start(rest, name);
    for (; name != NULL; name = va_arg(rest, const char *))
        json_put(object, name, va_arg(rest, json_t *));
    va_end(rest);
    return object;
}

static const char *form(const char *lines, const char *line)
{
    return stream.is_line ? line : lines;
}

void json_print(json_t *value)
{
    /* finish_output() reports a failure of stdout. */
    if (json_dumpf(value, stdout, LINES) == 0)
        putchar('\n');
    json_decref(value);
}

/* Prints the value without `before` and `after` bytes at the ends of its text. */
static void print_inside(json_t *value, size_t before, size_t after)
{
    char *text = memory_or_exit(
        json_dumps(value, stream.is_line ? JSON_COMPACT | NUMBERS : LINES));
    fwrite(text + before, 1, strlen(text) - before - after, stdout);
    free(text);
    json_decref(value);
}

/* In a whole of its own, which indents it. */
static void print_element(json_t *value)
{
    json_t *whole = memory_or_exit(json_array());
    json_put(whole, NULL, value);
    if (stream.begun)
        putchar(',');
    stream.begun = true;
    if (stream.is_field && !stream.is_line)
        print_inside(json_of("", whole), strlen("{\n  \"\": ["), strlen("\n  ]\n}"));
    else
        print_inside(whole, strlen("["), strlen(form("\n]", "]")));
}

static void end_array(void)
{
    fputs(!stream.begun ? "]" : form(stream.is_field ? "\n  ]" : "\n]", "]"), stdout);
    stream.begun = false;
}

json_t *json_stream(json_t *fields, const char *name)
{
    bool first = stream.array == NULL;
    stream.is_field = fields != NULL;
    if (first)
        stream.array = memory_or_exit(json_array());
    else
        end_array();
    if (fields == NULL) {
        putchar('[');
        return stream.array;
    }
    if (!first)
        putchar(',');
    json_put(fields, name, json_array());
    print_inside(fields, first ? 0 : strlen("{"), strlen(form("]\n}", "]}")));
    return stream.array;
}

json_t *json_stream_line(json_t *fields, const char *name)
{
    stream.is_line = true;
    return json_stream(fields, name);
}

void json_end(json_t *fields)
{
    json_decref(stream.array);
    stream.array = NULL;
    if (ferror(stdout)) { /* it lacks an element, and stays open */
        json_decref(fields);
        return;
    }
    end_array();
    if (json_object_size(fields) > 0) {
        putchar(',');
        print_inside(fields, strlen("{"), 0);
    } else {
        fputs(stream.is_field ? form("\n}", "}") : "", stdout);
        json_decref(fields);
    }
    stream.is_line = false;
    putchar('\n');
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
