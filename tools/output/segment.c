/* A segment as its catalog has it, as JSON. */
#include "output.h"

static json_t *place_json(const struct tamis_pack_place *p)
{
    return json_of("uuid", json_hex(p->uuid, sizeof(p->uuid)), "band",
                   json_count(p->band), "column", json_count(p->column), "columns",
                   json_count(p->n_columns), "blocks", json_count(p->n_blocks), "lanes",
                   json_count(p->lanes), "words", json_count(p->words), "row_bytes",
                   json_count(p->row_bytes));
}

json_t *segment_json(struct tamis_snapshot *snapshot, size_t i,
                     const struct tamis_segment_info *s)
{
    struct tamis_pack_place place;
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
    if (is_column(snapshot, i, &place))
        json_put(o, "pack", place_json(&place));
    json_put_list(o, snapshot, i);
    return o;
}
