/* The reason of an answer, for `probe --explain`: the fourth column, or objects. */
#include "output.h"

/* For programs, and for people. */
static const char *const by[][2] = {
    [TAMIS_BY_NOTHING] = {"nothing", "range and filter not checked"},
    [TAMIS_BY_RANGE] = {"range", "key range"},
    [TAMIS_BY_FILTER] = {"filter", "filter"}};

static const char *said(enum tamis_reason reason)
{
    return reason == TAMIS_NO_REASON ? "ABSENT" : tamis_reason_name(reason);
}

static json_t *stage_json(const struct tamis_stage_answer *s)
{
    json_t *o = json_of("says", json_string(said(s->reason)));
    if (s->reason != TAMIS_HIT)
        json_add(o, "lane", json_count(s->lane), "offset", json_count(s->offset));
    return o;
}

static json_t *pair_json(struct name segment, const struct tamis_explanation *e)
{
    json_t *stages = json_array();
    json_t *o = json_of("segment", json_escaped(segment.bytes, segment.n_bytes), "says",
                        json_string(said(e->reason)), "by", json_string(by[e->by][0]),
                        "stages", stages);
    for (uint32_t i = 0; i < e->n_stages; i++)
        json_put(stages, NULL, stage_json(&e->stages[i]));
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
