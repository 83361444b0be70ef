/* Backup: packs, files that many segments share. A pack record and the chunks of bits
 * beside it are items. So is a pack whose pack record is lost, for its columns may be
 * listed anew. Tombstones are copied with their pack. */
#include "lib/store/backup/inside.h"

static const char refused[] = "its pack record is lost or damaged: copied all the same";

static int add_of_pack(void *ctx, struct piece key, struct piece value)
{
    struct backup *b = ctx;
    struct record r = {.state = RECORD_NO_FILTER};
    struct listing l = {0};
    if (key.n == UUID_BYTES) {
        listing_decode(value.at, value.n, key.at, &l); /* zeros if it is refused */
        r = (struct record){.state = RECORD_OF_PACK, .table_digest = l.table_digest};
        memcpy(r.uuid, key.at, UUID_BYTES);
    }
    int rc = backup_add_item(b, key, value, &r);
    if (rc)
        return rc;
    struct backup_item *it = &b->items[b->n - 1];
    it->db = CATALOG_PACKS;
    it->n_segments = l.n_listed;
    it->n_named = l.n_overridden;
    it->refused =
        backup_is_shared(it) && !l.n_listed && !l.n_overridden ? refused : NULL;
    return 0;
}

/* Sets *pack to the pack of a chunk or a segment record; false: of another item. */
static bool names_pack_of(const struct backup_item *it, struct record *pack)
{
    struct record r;
    *pack = (struct record){.state = RECORD_OF_PACK};
    if (it->db == CATALOG_PACKS && it->name_bytes == CHUNK_KEY_BYTES) {
        memcpy(pack->uuid, it->name, UUID_BYTES);
        return true;
    }
    if (!it->elsewhere || it->state == RECORD_OF_LIST)
        return false;
    backup_record(it, &r);
    memcpy(pack->uuid, r.place.uuid, UUID_BYTES);
    return true;
}

static int add_lost_packs(struct backup *b)
{
    struct names known = {0}; /* by the items' keys: items move */
    size_t n = b->n;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        if (backup_is_shared(&b->items[i]))
            rc = names_set(&known, b->items[i].name, UUID_BYTES, 1);
    for (size_t i = 0; i < n && !rc; i++) {
        struct record pack;
        if (!names_pack_of(&b->items[i], &pack) ||
            names_get(&known, pack.uuid, UUID_BYTES))
            continue;
        rc = backup_add_item(b, (struct piece){pack.uuid, UUID_BYTES},
                             (struct piece){pack.uuid, 0}, &pack);
        if (rc)
            break;
        struct backup_item *it = &b->items[b->n - 1];
        it->lost = true;
        it->refused = refused;
        rc = names_set(&known, it->name, UUID_BYTES, 1);
    }
    names_clear(&known);
    return rc;
}

int backup_list_shared(struct catalog_txn *t, struct backup *b, struct tamis_diag *diag)
{
    int rc = catalog_each_in(t, CATALOG_PACKS, add_of_pack, b, diag);
    if (rc)
        return rc;
    rc = add_lost_packs(b);
    return rc ? diag_errno(diag, rc, t->catalog->path, "listing the packs") : 0;
}

int backup_open_shared(struct backup_item *it, int dir)
{
    struct header h;
    if (!it->table_digest && !header_load(it->from, true, 0, 0, "", &h, NULL))
        it->table_digest = commit_table_digest(&h.commit);
    int rc = dead_load(dir, it->uuid, it->table_digest, &it->dead, &it->n_columns);
    if (rc == EMFILE || rc == ENFILE || rc == ENOMEM)
        return rc;
    it->no_dead = rc;
    return 0;
}
