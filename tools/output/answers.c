/* Prints the answers of probes: one line per pair of key and segment that may be, one
 * object per key, or only the totals; and with --explain their reasons. */
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

struct answers answers_for(const struct options *o)
{
    return (struct answers){.json = given(o, OPT_JSON),
                            .explain = given(o, OPT_EXPLAIN),
                            .format = o->format,
                            .silent = given(o, OPT_QUIET) || given(o, OPT_COUNT)};
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

/* One segment's answer, without the end of the line. */
static void answer_line(struct answers *a, const struct tamis_key *key,
                        struct name segment, enum tamis_reason reason)
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
    if (a->json)
        json_print(json_of("keys", json_count(a->keys), "pairs", json_count(a->pairs),
                           "maybe_pairs", json_count(a->maybe_pairs), "absent_pairs",
                           json_count(a->pairs - a->maybe_pairs), "absent_keys",
                           json_count(a->absent_keys)));
    else
        printf("keys         %llu\npairs        %llu\nmaybe_pairs  %llu\n"
               "absent_pairs %llu\nabsent_keys  %llu\n",
               LLU(a->keys), LLU(a->pairs), LLU(a->maybe_pairs),
               LLU((a->pairs - a->maybe_pairs)), LLU(a->absent_keys));
}

/* ---- the reason of an answer, for --explain: the fourth column, or objects ---- */

/* For programs, and for people. */
static const char *const by[][2] = {
    [TAMIS_BY_NOTHING] = {"nothing", "range and filter not checked"},
    [TAMIS_BY_RANGE] = {"range", "key range"},
    [TAMIS_BY_FILTER] = {"filter", "filter"}};

static const char *said(enum tamis_reason reason)
{
    return reason == TAMIS_NO_REASON ? "ABSENT" : tamis_reason_name(reason);
}

static json_t *pair_json(struct name segment, const struct tamis_explanation *e)
{
    json_t *stages = json_array();
    json_t *o = json_of("segment", json_escaped(segment.bytes, segment.n_bytes), "says",
                        json_string(said(e->reason)), "by", json_string(by[e->by][0]),
                        "stages", stages);
    for (uint32_t i = 0; i < e->n_stages; i++) {
        const struct tamis_stage_answer *s = &e->stages[i];
        json_t *stage = json_of("says", json_string(said(s->reason)));
        if (s->reason != TAMIS_HIT)
            json_add(stage, "lane", json_count(s->lane), "offset",
                     json_count(s->offset));
        json_put(stages, NULL, stage);
    }
    return o;
}

/* Stages that agree with the answer. All agree with ABSENT. */
static void print_stages(const struct tamis_explanation *e)
{
    const char *between = ": ";
    for (uint32_t i = 0; i < e->n_stages; i++) {
        const struct tamis_stage_answer *s = &e->stages[i];
        unsigned long long offset = s->offset;
        if (s->reason == TAMIS_NO_REASON && e->reason != TAMIS_NO_REASON)
            continue;
        printf("%sstage %u", between, i);
        if (s->reason == TAMIS_NO_REASON)
            printf(", lane %u lacks a bit at %llu", s->lane, offset);
        else if (s->reason == TAMIS_DAMAGED)
            printf(", lane %u has a damaged page at %llu", s->lane, offset);
        else
            fputs(" has every bit", stdout);
        between = "; ";
    }
}

void answer_explained(struct answers *a, const struct tamis_key *key,
                      struct name segment, const struct tamis_explanation *e)
{
    if (a->json) {
        json_put(a->list, NULL, pair_json(segment, e));
        return;
    }
    answer_line(a, key, segment, e->reason);
    printf("\t%s", by[e->by][1]);
    print_stages(e);
    putchar('\n');
}
