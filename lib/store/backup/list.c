/* Backup: the list of segments, and of files that were copied before it was made. */
#include "lib/store/backup/inside.h"

/* ---- segments ---- */

void backup_free_items(struct backup *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->items[i].name);
        free(b->items[i].dead);
        if (b->items[i].from >= 0)
            close(b->items[i].from);
    }
    free(b->items);
    b->items = NULL;
    b->n = b->max = 0;
}

static int set_value(struct backup_item *it, struct piece name, struct piece value,
                     const struct record *r)
{
    uint8_t *memory = malloc(name.n + value.n);
    if (!memory)
        return ENOMEM;
    memcpy(memory, name.at, name.n);
    memcpy(memory + name.n, value.at, value.n);
    free(it->name);
    it->name = memory;
    it->value = memory + name.n;
    it->name_bytes = (uint32_t)name.n;
    it->value_bytes = (uint32_t)value.n;
    it->state = r->state;
    it->elsewhere = record_packed(r);
    it->table_digest = r->table_digest;
    memcpy(it->uuid, r->uuid, UUID_BYTES);
    return 0;
}

int backup_add_item(struct backup *b, struct piece name, struct piece value,
                    const struct record *r)
{
    void *items = room_for(b->items, b->n + 1, &b->max, sizeof *b->items);
    if (!items)
        return ENOMEM;
    b->items = items;
    struct backup_item *it = &b->items[b->n];
    *it = (struct backup_item){.db = CATALOG_SEGMENTS, .from = -1};
    if (!r->state)
        it->refused = "its record is damaged: copied as it is, without its file";
    int rc = set_value(it, name, value, r);
    b->n += !rc;
    return rc;
}

/* The list of a segment that was just added, or might have been. */
static int add_list(struct backup *b, struct piece name, struct piece value,
                    const struct record *r)
{
    struct record list = record_of_list(r);
    return backup_add_item(b, name, value, &list);
}

static int add_any(void *ctx, struct piece name, struct piece value)
{
    struct record r = {0};
    record_decode(value.at, value.n, name.at, name.n, &r);
    struct backup *b = ctx;
    int rc = backup_add_item(b, name, value, &r);
    if (rc)
        return rc;
    b->items[b->n - 1].n_segments = 1;
    return record_listed(&r) ? add_list(b, name, value, &r) : 0;
}

static int add_new(void *ctx, struct piece name, struct piece value)
{
    struct backup *b = ctx;
    struct record r = {0};
    record_decode(value.at, value.n, name.at, name.n, &r);
    if (record_listed(&r) && !names_get(&b->by_uuid, r.list_uuid, UUID_BYTES)) {
        int rc = add_list(b, name, value, &r);
        if (rc)
            return rc;
    }
    if (r.state != RECORD_SEALED || record_packed(&r) ||
        names_get(&b->by_uuid, r.uuid, UUID_BYTES))
        return 0;
    return backup_add_item(b, name, value, &r);
}

int backup_list_all(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    backup_free_items(ctx);
    return catalog_each(t, add_any, ctx, diag);
}

int backup_list_new(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    backup_free_items(ctx);
    return catalog_each(t, add_new, ctx, diag);
}

void backup_record(const struct backup_item *it, struct record *r)
{
    *r = (struct record){.state = it->state, .table_digest = it->table_digest};
    memcpy(r->uuid, it->uuid, UUID_BYTES);
    if (backup_is_shared(it))
        return;
    record_decode(it->value, it->value_bytes, it->name, it->name_bytes, r);
    if (it->state == RECORD_OF_LIST)
        *r = record_of_list(r);
}

bool backup_has_its_list(const struct backup *b, const struct backup_item *it)
{
    const struct backup_item *list = it + 1;
    return it->state != RECORD_OF_LIST && list < b->items + b->n &&
           list->state == RECORD_OF_LIST && !list->failure &&
           !(list->early && list->early->left);
}

bool backup_leaves_list(const struct backup *b, struct backup_item *it)
{
    struct record r;
    if (it->state != RECORD_OF_LIST)
        return false;
    backup_record(it - 1, &r);
    if (record_listed(&r))
        return false;
    if (it->early && !it->early->left)
        filter_file_unlink(b->filters, it->uuid);
    if (it->from >= 0)
        close(it->from);
    it->from = -1;
    return true;
}

int backup_set_record(struct backup_item *it, const struct record *r)
{
    uint8_t value[RECORD_MAX_BYTES];
    struct piece name = {it->name, it->name_bytes};
    size_t n = record_encode(r, name.at, name.n, value);
    return set_value(it, name, (struct piece){value, n}, r);
}

/* ---- files copied early ---- */

static char *why_left(const struct copied *done)
{
    char text[300];
    snprintf(text, sizeof text, "%s%s%s", done->left, done->diag.what[0] ? ": " : "",
             done->diag.what);
    return strdup(text);
}

static void free_early(struct backup_early *e)
{
    free(e->left);
    free(e);
}

int backup_note_early(struct backup *b, const struct backup_item *it,
                      const struct copied *done)
{
    void *early = room_for(b->early, b->n_early + 1, &b->max_early,
                           sizeof(struct backup_early *));
    int rc = 0;
    if (!early)
        return ENOMEM;
    b->early = early;
    struct backup_early *e = calloc(1, sizeof *e);
    if (!e)
        return ENOMEM;
    memcpy(e->uuid, it->uuid, UUID_BYTES);
    e->table_digest = it->table_digest;
    e->n_bytes = done->n_bytes;
    e->damaged = done->n_damaged > 0;
    e->code = done->diag.code;
    if (done->left && !(e->left = why_left(done)))
        rc = ENOMEM;
    if (!rc)
        rc = names_set(&b->by_uuid, e->uuid, UUID_BYTES, (uint32_t)b->n_early + 1);
    if (rc)
        free_early(e);
    else
        b->early[b->n_early++] = e;
    return rc;
}

struct backup_early *backup_find_early(const struct backup *b,
                                       const struct backup_item *it)
{
    uint32_t i = names_get(&b->by_uuid, it->uuid, UUID_BYTES);
    bool same = i && it->state >= RECORD_SEALED &&
                it->table_digest == b->early[i - 1]->table_digest;
    return same ? b->early[i - 1] : NULL;
}

void backup_free_early(struct backup *b)
{
    for (size_t i = 0; i < b->n_early; i++)
        free_early(b->early[i]);
    free(b->early);
    names_clear(&b->by_uuid);
}
