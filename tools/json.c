/* Facts for programs, made with jansson. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { NUMBERS = JSON_REAL_PRECISION(15) };

json_t *json_escaped(const void *bytes, size_t n)
{
    char *text = escape(bytes, n);
    json_t *value = json_string(text);

    free(text);
    return need(value);
}

json_t *json_hex(const void *bytes, size_t n)
{
    char *text = hex(bytes, n);
    json_t *value = json_string(text);

    free(text);
    return need(value);
}

json_t *json_count(uint64_t n)
{
    char digits[24];

    if (n <= INT64_MAX)
        return need(json_integer((json_int_t)n));
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    return need(json_string(digits));
}

json_t *json_number(double x)
{
    json_t *value = json_real(x);

    return need(value ? value : json_null()); /* no words for infinity */
}

void json_put(json_t *object, const char *key, json_t *value)
{
    int failed = json_is_array(object) ? json_array_append_new(object, value)
                                       : json_object_set_new(object, key, value);

    need(failed ? NULL : object);
}

static void print(json_t *value, size_t flags)
{
    /* What stdout refuses is reported by finish_output(). */
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
    "--json prints one JSON value; probe prints one object per line instead.\n"
    "\n"
    "Names, keys and file names are strings with the same \\xHH escapes as in the\n"
    "text output (and \\x5c for a backslash), so that any bytes can be had back.\n"
    "uuid, store_uuid, binding and digests are hex digits. Counts from 2^63 on are\n"
    "strings of digits. Errors are fractions, times microseconds since 1970. What\n"
    "does not apply is left out.\n"
    "\n"
    "  probe        {key, answer, candidates: [{segment, reason}]}\n"
    "               answer: MAYBE, ABSENT; a key may be elsewhere, too, if a\n"
    "               candidate has no segment\n"
    "    --count    {keys, pairs, maybe_pairs, absent_pairs, absent_keys}\n"
    "  ls           [{segment, state, rank, keys, bytes, error, watermark, "
    "generation,\n"
    "               created, uuid, binding, first_key, last_key, file}]\n"
    "  stat         {store, uuid, created, complete, read_only, hash_id, seed, error,\n"
    "               factor, tightening, n0, segments, sealed, growing, bare,\n"
    "               over_target, unreadable, lost, keys, filter_bytes,\n"
    "               filter_allocated_bytes, catalog_bytes, catalog_file_bytes,\n"
    "               details: [as ls, and stages]}\n"
    "    --residency  and page_bytes, pages, resident, residency: [{segment, pages,\n"
    "               resident}]; without resident where the kernel does not tell\n"
    "    a filter   {keys, target_error, expected_error, over_target, sealed, clean,\n"
    "               watermark, sequence, generation, bytes, stages: [{offset, bytes,\n"
    "               lanes, words, blocks, capacity, keys, bits_set, fill,\n"
    "               target_error, expected_error}]}\n"
    "  verify       {segments: [{segment, result, pages, damaged, first_damaged,\n"
    "               stale_slots, what, file}], damaged_segments, orphans: [{file,\n"
    "               what}], against: {keys, segments, lost, lost_keys: [{segment,\n"
    "               key}]}}\n"
    "               result: ok, bare, damaged, lost, unreadable\n"
    "  repair       {findings: [{action, segment, file, what, damage, error}],\n"
    "               dry_run, segments, finished, rebuilt, quarantined, swept, "
    "damaged,\n"
    "               unread, catalog_rebuilt, complete}\n"
    "               action: noted, finished, rebuilt, quarantined, swept\n"
    "  backup       {findings: [as repair's], segments, files, bytes, damaged,\n"
    "               left_out}\n"
    "  file show    {file, offset, fields: [{record, name, offset, bytes, value,\n"
    "               text}], error}; --residency: and page_bytes, pages, resident\n"
    "  file probe   as probe;  file verify: one of verify's segments, and against\n"
    "  plan         {keys, error, lanes, words, blocks, bits_bytes, file_bytes,\n"
    "               bits_per_key}; classic: {bytes, error, k, m, n, n_exact};\n"
    "               growth: {error, factor, tightening, n0, stages: [the like]}\n";
