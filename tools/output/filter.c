/* Prints the facts of a filter, for people and for programs, and of a segment as its
 * catalog has it, as JSON. */
#include "output.h"

static double fill_of(const struct tamis_stage_info *s)
{
    return s->bits_bytes ? (double)s->bits_set / (8.0 * (double)s->bits_bytes) : 0;
}

static json_t *stage_json(const struct tamis_stage_info *s, bool settled)
{
    return json_of("offset", json_count(s->offset), "bytes", json_count(s->bits_bytes),
                   "lanes", json_count(s->lanes), "words", json_count(s->words),
                   "blocks", json_count(s->n_blocks), "capacity",
                   json_count(s->capacity), "keys", json_count(s->keys), "bits_set",
                   json_count(s->bits_set), "fill", json_number(fill_of(s)),
                   "target_error", json_number(s->target_error), "expected_error",
                   json_number(s->expected_error), "settled", json_boolean(settled));
}

/* Chance sets a few bits more or fewer than expected. A rebuild would not mend that. */
static const double BY_CHANCE = 1.05;

bool over_target(const struct tamis_filter_info *info)
{
    return info->expected_error > info->growth.error * BY_CHANCE;
}

void filter_bits(const struct tamis_filter_info *info, uint64_t *bits, uint64_t *set)
{
    *bits = *set = 0;
    for (uint32_t i = 0; i < info->n_stages; i++) {
        *bits += 8 * info->stages[i].bits_bytes;
        *set += info->stages[i].bits_set;
    }
}

json_t *filter_json(struct tamis_filter *filter)
{
    struct tamis_filter_info info;
    if (tamis_filter_info(filter, &info, NULL) != 0)
        return json_of(NULL);
    json_t *stages = json_array();
    json_t *o = json_of(
        "keys", json_count(info.keys), "target_error", json_number(info.growth.error),
        "expected_error", json_number(info.expected_error), "over_target",
        json_boolean(over_target(&info)), "sealed", json_boolean(info.sealed), "clean",
        json_boolean(info.clean), "watermark", json_count(info.watermark), "sequence",
        json_count(info.sequence), "generation", json_count(info.generation), "bytes",
        json_count(info.file_bytes), "stages", stages);
    for (uint32_t i = 0; i < info.n_stages; i++)
        json_put(stages, NULL, stage_json(&info.stages[i], i < info.n_settled));
    return o;
}

void print_filter(struct tamis_filter *filter, uint64_t allocated)
{
    struct tamis_filter_info info;
    if (tamis_filter_info(filter, &info, NULL) != 0)
        return;
    printf("  state       %s%s", info.sealed ? "sealed" : "growing",
           info.sealed  ? ""
           : info.clean ? ", no writer"
                        : ", a writer has it or died");
    if (info.n_settled)
        printf(", %u of %s settled", info.n_settled, COUNTED(info.n_stages, "stage"));
    putchar('\n');
    printf("  keys        %llu\n", LLU(info.keys));
    printf("  error       %s expected, target %s%s", PERCENT(info.expected_error),
           PERCENT(info.growth.error), over_target(&info) ? ": " : "");
    if (over_target(&info))
        print_tinted(TINT_BAD, "OVER TARGET, build the segment anew");
    printf("\n  watermark   %llu\n", LLU(info.watermark));
    printf("  size        %llu bytes (%s)", LLU(info.file_bytes),
           SIZE(info.file_bytes));
    if (allocated != info.file_bytes)
        printf(" long, %llu allocated (%s)", LLU(allocated), SIZE(allocated));
    putchar('\n');
    printf(
        "  stage lanes words       blocks     capacity         keys    fill   target "
        "expected\n");
    for (uint32_t i = 0; i < info.n_stages; i++) {
        const struct tamis_stage_info *s = &info.stages[i];
        printf("  %5u %5u %5u %12llu %12llu %12llu %6.2f%% %7.4g%% %7.4g%%\n", i,
               s->lanes, s->words, LLU(s->n_blocks), LLU(s->capacity), LLU(s->keys),
               100 * fill_of(s), 100 * s->target_error, 100 * s->expected_error);
    }
}

/* ---- a segment ---- */

json_t *segment_json(struct tamis_snapshot *snapshot, size_t i,
                     const struct tamis_segment_info *s)
{
    struct tamis_pack_place p;
    json_t *o = json_of("segment", json_escaped(s->name, s->name_bytes), "state",
                        json_string(state_name(s->state)), "rank", json_count(s->rank));
    if (s->binding_bytes > 0)
        json_put(o, "binding", json_hex(s->binding, s->binding_bytes));
    json_add(o, "created", json_count(s->created), "generation",
             json_count(s->generation));
    if (s->state == TAMIS_SEGMENT_BARE)
        return o;
    json_add(o, "keys", json_count(s->keys), "bytes", json_count(s->file_bytes),
             "error", json_number(s->error), "watermark", json_count(s->watermark),
             "uuid", json_hex(s->uuid, sizeof(s->uuid)), "file", json_string(s->file));
    if (s->first_key != NULL)
        json_add(o, "first_key", json_escaped(s->first_key, s->first_key_bytes),
                 "last_key", json_escaped(s->last_key, s->last_key_bytes));
    if (is_column(snapshot, i, &p))
        json_put(o, "pack",
                 json_of("uuid", json_hex(p.uuid, sizeof(p.uuid)), "band",
                         json_count(p.band), "column", json_count(p.column), "columns",
                         json_count(p.n_columns), "blocks", json_count(p.n_blocks),
                         "lanes", json_count(p.lanes), "words", json_count(p.words),
                         "row_bytes", json_count(p.row_bytes)));
    json_put_list(o, snapshot, i);
    return o;
}
