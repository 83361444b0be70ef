/* A segment as its catalog has it, as JSON. */
#include "../open/open.h"
#include "../talk/talk.h"
#include "output.h"
#include "tamis.h"

json_t *segment_json(const struct tamis_segment_info *s)
{
    json_t *o = memory_or_exit(json_object());

    json_put(o, "segment", json_escaped(s->name, s->name_bytes));
    json_put(o, "state", json_string(state_name(s->state)));
    json_put(o, "rank", json_count(s->rank));
    if (s->binding_bytes > 0)
        json_put(o, "binding", json_hex(s->binding, s->binding_bytes));
    json_put(o, "created", json_count(s->created));
    json_put(o, "generation", json_count(s->generation));
    if (s->state == TAMIS_SEGMENT_BARE)
        return o;
    json_put(o, "keys", json_count(s->keys));
    json_put(o, "bytes", json_count(s->file_bytes));
    json_put(o, "error", json_number(s->error));
    json_put(o, "watermark", json_count(s->watermark));
    json_put(o, "uuid", json_hex(s->uuid, sizeof(s->uuid)));
    json_put(o, "file", json_string(s->file));
    if (s->first_key != NULL) {
        json_put(o, "first_key", json_escaped(s->first_key, s->first_key_bytes));
        json_put(o, "last_key", json_escaped(s->last_key, s->last_key_bytes));
    }
    return o;
}

json_t *place_json(const struct tamis_pack_place *p)
{
    json_t *o = memory_or_exit(json_object());

    json_put(o, "uuid", json_hex(p->uuid, sizeof(p->uuid)));
    json_put(o, "band", json_count(p->band));
    json_put(o, "column", json_count(p->column));
    json_put(o, "columns", json_count(p->n_columns));
    json_put(o, "blocks", json_count(p->n_blocks));
    json_put(o, "lanes", json_count(p->lanes));
    json_put(o, "words", json_count(p->words));
    json_put(o, "row_bytes", json_count(p->row_bytes));
    return o;
}
