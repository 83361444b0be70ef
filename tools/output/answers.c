/* Prints the answers of probes: one line per pair of key and segment that may be, one
 * object per key, or only the totals. */
#include "output.h"

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

void answer_begin(struct answers *a, const struct tamis_key *key)
{
    a->listed = false;
    if (!a->json || a->silent)
        return;
    json_t *o = memory_or_exit(json_object());
    json_put_key(o, key, a->format);
    a->list = json_stream_line(o, a->explain ? "explained" : "candidates");
}

void answer_candidates(struct answers *a)
{
    json_stream_line(memory_or_exit(json_object()), "candidates");
    a->listed = false;
}

/* Reads due to damage, reads due to a known reason, and plain hits. */
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

void answer_line(struct answers *a, const struct tamis_key *key, struct name segment,
                 enum tamis_reason reason)
{
    a->listed |= reason != TAMIS_NO_REASON;
    print_key(key, a->format);
    putchar('\t');
    if (segment.n_bytes == 1 && *(const char *)segment.bytes == '-')
        fputs("\\x2d", stdout); /* a segment of that very name */
    else
        print_escaped(stdout, segment.bytes, segment.n_bytes);
    putchar('\t');
    if (reason == TAMIS_NO_REASON)
        print_tinted(TINT_GOOD, "ABSENT");
    else
        print_tinted(tint_of(reason), "%s", tamis_reason_name(reason));
}

void answer_pair(struct answers *a, const struct tamis_key *key, struct name segment,
                 enum tamis_reason reason)
{
    /* Else any that the list lacks. */
    bool known = segment.bytes != NULL || reason != TAMIS_UNKNOWN_SEGMENT;
    a->listed = true;
    a->maybe_pairs += known;
    if (a->silent)
        return;
    if (a->json) {
        json_t *pair = memory_or_exit(json_object());
        if (known)
            json_put(pair, "segment", json_escaped(segment.bytes, segment.n_bytes));
        json_put(pair, "reason", json_string(tamis_reason_name(reason)));
        json_put(a->list, NULL, pair);
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
        answer_pair(a, key, (struct name){NULL, 0}, TAMIS_UNKNOWN_SEGMENT);
    if (a->silent)
        return;
    if (a->json) {
        json_end(json_of("answer",
                         json_string(answer == TAMIS_ABSENT ? "ABSENT" : "MAYBE")));
    } else if (answer == TAMIS_ABSENT) {
        answer_line(a, key, (struct name){NULL, 0}, TAMIS_NO_REASON);
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
    json_t *object = a->json ? memory_or_exit(json_object()) : NULL;
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        if (a->json)
            json_put(object, totals[i].name, json_count(totals[i].n));
        else
            printf("%-12s %llu\n", totals[i].name, LLU(totals[i]).n);
    }
    if (a->json)
        json_print(object);
}
