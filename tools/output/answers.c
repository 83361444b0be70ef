/* What probes print: one line per pair of key and segment that may be, or one object
 * per key; or only the totals. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tool.h"

void answer_begin(struct answers *a)
{
    a->listed = false;
    if (a->json && !a->silent)
        a->candidates = need(json_array());
    if (a->json && a->explain)
        a->explained = need(json_array());
}

void print_key(const struct tamis_key *key, enum key_format format)
{
    const uint8_t *bytes = key->bytes;

    if (format != KEYS_HEX)
        print_escaped(stdout, key->bytes, key->n_bytes);
    for (size_t i = 0; format == KEYS_HEX && i < key->n_bytes; i++)
        printf("%02x", bytes[i]);
}

void json_put_key(json_t *o, const struct tamis_key *key, enum key_format format)
{
    json_put(o, "key", json_escaped(key->bytes, key->n_bytes));
    if (format == KEYS_HEX)
        json_put(o, "key_hex", json_hex(key->bytes, key->n_bytes));
}

/* A read that is owed to damage, one that is owed to what is known, and a plain hit. */
static enum tint tint_of(enum tamis_reason reason)
{
    switch (reason) {
    case TAMIS_NO_REASON:
    case TAMIS_HIT:
        return TINT_NONE;
    case TAMIS_UNKNOWN_SEGMENT:
    case TAMIS_NO_FILTER:
    case TAMIS_BEHIND:
        return TINT_DOUBT;
    case TAMIS_DAMAGED:
    case TAMIS_FILE_LOST:
    case TAMIS_MISMATCH:
    case TAMIS_UNREADABLE:
        break;
    }
    return TINT_BAD;
}

void answer_line(struct answers *a, const struct tamis_key *key,
                 struct tamis_name segment, enum tamis_reason reason)
{
    a->listed |= reason != TAMIS_NO_REASON;
    print_key(key, a->format);
    putchar('\t');
    if (segment.bytes == NULL)
        putchar('-');
    else if (segment.n_bytes == 1 && *(const char *)segment.bytes == '-')
        fputs("\\x2d", stdout); /* a segment of that very name */
    else
        print_escaped(stdout, segment.bytes, segment.n_bytes);
    putchar('\t');
    if (reason == TAMIS_NO_REASON)
        print_tinted(TINT_GOOD, "ABSENT");
    else
        print_tinted(tint_of(reason), "%s", tamis_reason_name(reason));
}

void answer_pair(struct answers *a, const struct tamis_key *key,
                 struct tamis_name segment, enum tamis_reason reason)
{
    a->listed = true;
    if (segment.bytes != NULL)
        a->maybe_pairs++;
    if (a->silent)
        return;
    if (a->json) {
        json_t *pair = need(json_object());

        if (segment.bytes != NULL)
            json_put(pair, "segment", json_escaped(segment.bytes, segment.n_bytes));
        json_put(pair, "reason", json_string(tamis_reason_name(reason)));
        json_put(a->candidates, NULL, pair);
        return;
    }
    answer_line(a, key, segment, reason);
    putchar('\n');
}

void answer_end(struct answers *a, const struct tamis_key *key,
                enum tamis_answer answer, size_t n_asked)
{
    a->keys++;
    a->pairs += n_asked;
    a->absent_keys += answer == TAMIS_ABSENT;
    if (answer != TAMIS_ABSENT && !a->listed)
        answer_pair(a, key, (struct tamis_name){NULL, 0}, TAMIS_UNKNOWN_SEGMENT);
    if (a->silent)
        return;
    if (a->json) {
        json_t *object = need(json_object());

        json_put_key(object, key, a->format);
        json_put(object, "answer",
                 json_string(answer == TAMIS_ABSENT ? "ABSENT" : "MAYBE"));
        json_put(object, "candidates", a->candidates);
        if (a->explain)
            json_put(object, "explained", a->explained);
        json_print_line(object);
    } else if (answer == TAMIS_ABSENT) {
        answer_line(a, key, (struct tamis_name){NULL, 0}, TAMIS_NO_REASON);
        putchar('\n');
    }
}

void print_totals(const struct answers *a)
{
    const struct {
        const char *name;
        uint64_t n;
    } totals[] = {
        {"keys", a->keys},
        {"pairs", a->pairs},
        {"maybe_pairs", a->maybe_pairs},
        {"absent_pairs", a->pairs - a->maybe_pairs},
        {"absent_keys", a->absent_keys},
    };
    json_t *object = a->json ? need(json_object()) : NULL;

    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        if (a->json)
            json_put(object, totals[i].name, json_count(totals[i].n));
        else
            printf("%-12s %llu\n", totals[i].name, (unsigned long long)totals[i].n);
    }
    if (a->json)
        json_print(object);
}

void check_probe_options(const struct options *o)
{
    size_t n_keys = o->n_args - 1;

    if (given(o, OPT_KEYS_FILE) == (n_keys > 0))
        usage_error(n_keys > 0 ? "either KEYs or --keys FILE, not both"
                               : "no key: name some, or --keys FILE");
    if (given(o, OPT_QUIET) && n_keys != 1)
        usage_error("--quiet answers for one KEY by exit status");
    if (given(o, OPT_QUIET) && (given(o, OPT_JSON) || given(o, OPT_COUNT)))
        usage_error("--quiet prints nothing: leave out --json and --count");
    if (given(o, OPT_EXPLAIN) && (given(o, OPT_QUIET) || given(o, OPT_COUNT)))
        usage_error("--explain prints each answer: leave out --quiet and --count");
    if ((given(o, OPT_NUL) || given(o, OPT_BINARY)) && n_keys > 0)
        usage_error("-0 and --binary are for --keys FILE");
}

static int ask_list(const struct options *o, const struct tamis_domain *domain,
                    ask_fn *ask, void *ctx)
{
    struct key_batch *batch;
    struct key_reader *reader;
    uint64_t position = 0;
    int got = 0, status = keys_open(o->keys_file, o->format, &reader);

    if (status != EXIT_DONE)
        return status;
    batch = need(calloc(1, sizeof(*batch)));
    /* Lines of answers on the same terminal say more. */
    if (given(o, OPT_COUNT) || isatty(STDOUT_FILENO) != 1)
        progress_start("probe", keys_size(reader));
    while (status == EXIT_DONE && (got = keys_batch(reader, domain, batch)) > 0) {
        status = ask(ctx, batch->keys, batch->n);
        progress_advance(batch->n, keys_position(reader) - position);
        position = keys_position(reader);
        /* Whoever talks to us through pipes gets each answer before the next question.
         */
        if (!output_works())
            status = EXIT_IO;
    }
    if (got < 0)
        status = keys_status(reader);
    if (status == EXIT_DONE)
        progress_end();
    batch_free(batch);
    free(batch);
    keys_close(reader);
    return status;
}

int ask_keys(const struct options *o, const struct tamis_domain *domain, ask_fn *ask,
             void *ctx)
{
    int status = EXIT_DONE;

    if (given(o, OPT_KEYS_FILE))
        return ask_list(o, domain, ask, ctx);
    for (size_t i = 1; i < o->n_args && status == EXIT_DONE; i++) {
        char *text = o->args[i];
        size_t n = strlen(text);
        struct tamis_key key;

        if (o->format == KEYS_HEX) {
            long bytes = parse_hex(text, n, (uint8_t *)text, n);

            if (bytes < 0)
                usage_error("'%s' is not an even number of hex digits", text);
            n = (size_t)bytes;
        }
        key = tamis_key_of(domain, text, n);
        status = ask(ctx, &key, 1);
    }
    return status;
}
