/* Repair by files: the catalog is lost, and what the filters say of themselves is all
 * there is. A segment has one file that claims its name, or it has no filter: of two
 * files one is newer, but which of them the catalog meant nobody can tell (an edit that
 * was cut short leaves a newer one, a drop that was cut short an older one). */
#include "lib/store/repair/inside.h"
#include "format/list.h"
#include "lib/plan/plan.h"
#include "lib/store/catalog/file.h"

/* ---- lists ---- */

/* The list goes back to its segment, if the filter there is of the same keys. */
static bool give_back(struct repair *r, struct repair_segment *s, struct repair_file *f,
                      const struct identity *id)
{
    const struct repair_file *own = s->own ? &r->files[s->own - 1] : NULL;
    struct record record;
    repair_record(s, &record);
    if (f->aside || record.state != RECORD_SEALED || record_listed(&record) ||
        !repair_is_list_of(r, id, s, s->set_id) ||
        (own && own->rotten && f->hash_bits != 64))
        return false;
    memcpy(record.list_uuid, id->uuid, UUID_BYTES);
    record.list_digest = f->digest;
    repair_set_record(s, &record);
    f->named = true;
    return true;
}

static int claim_list(struct repair *r, struct repair_file *f)
{
    struct identity id;
    struct repair_segment *s;
    int rc = repair_identify(r->filters.fd, f->name, &id);
    if (rc)
        return rc;
    s = claim_segment(r, identity_name(&id));
    if (!s && !f->aside && repair_is_ours(r, &id))
        rc = claim_column_of_list(r, &id, &s);
    if (rc || (s && give_back(r, s, f, &id)))
        return rc;
    const struct repair_segment who = {.name = identity_name(&id)};
    if (!f->aside)
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, &who, f->name,
                    "a list: nothing says which filter it goes with");
    f->aside = true;
    if (!id.name_bytes || !repair_is_ours(r, &id) ||
        names_get(&r->claimed, id.name, id.name_bytes))
        return 0;
    const struct record bare = {.state = RECORD_NO_FILTER, .created = id.created};
    return claim_new(r, identity_name(&id), &bare, &s);
}

/* Without a catalog, after all claims: gives each list back to the segment whose name
 * and set id it has. The others go aside; a segment of which only a list is known is
 * listed, too. */
static int claim_lists(struct repair *r)
{
    for (size_t i = 0; i < r->n_files; i++) {
        int rc = r->files[i].is_list ? claim_list(r, &r->files[i]) : 0;
        if (rc)
            return diag_errno(r->diag, rc, r->files[i].name,
                              "reading a list, to list its segment");
    }
    return 0;
}

/* ---- which store is this? ---- */

static int same_store(const struct meta *a, const struct meta *b)
{
    return memcmp(a->store_uuid, b->store_uuid, UUID_BYTES) == 0 &&
           a->hash_id == b->hash_id && a->hash_seed == b->hash_seed;
}

/* The meta records found in what is left of the catalog. Any of them will do as long as
 * all agree. */
struct metas_found {
    struct meta meta;
    bool any, differ, newer, draft;
};

static void take_meta(struct metas_found *l, const struct meta *m)
{
    l->differ = l->differ || (l->any && !same_store(m, &l->meta));
    l->meta = *m;
    l->any = true;
}

/* Where it belongs: in a leaf page, as the value of a node of its key that the page
 * itself points to. Bytes that only look like it, and say that they are of a newer
 * version, may be a user's: of a name, a binding, the bound of a range. */
static void look_at_page(struct metas_found *l, const uint8_t *page, size_t n_bytes,
                         uint64_t number)
{
    size_t lower = walk_get16(page + 12);
    if (walk_get64(page) != number || walk_get16(page + 10) != PAGE_LEAF ||
        lower < PAGE_HEAD || lower > n_bytes)
        return;
    for (size_t i = 0; i < walk_count(page); i++) {
        size_t at = walk_get16(page + PAGE_HEAD + 2 * i);
        if (at < lower || at + NODE_HEAD > n_bytes)
            continue;
        struct node n = walk_node(page, i, false);
        struct meta m;
        if (n.flags || n.key_bytes != sizeof CATALOG_META_KEY - 1 ||
            n.key_bytes + n.data_bytes > n_bytes - at - NODE_HEAD ||
            memcmp(n.key, CATALOG_META_KEY, n.key_bytes) != 0)
            continue;
        enum verdict_code code = meta_decode(n.data, n.data_bytes, &m).code;
        if (code == VERDICT_OK)
            take_meta(l, &m);
        l->draft = l->draft || code == VERDICT_DRAFT;
        l->newer = l->newer || code == VERDICT_VERSION || code == VERDICT_FLAGS ||
                   (code == VERDICT_OK && m.ro_compat);
    }
}

/* Anywhere: of this version, it has a magic and a checksum. */
static void look_at_bytes(struct metas_found *l, const uint8_t *bytes)
{
    struct meta m;
    if (magic_is(bytes, MAGIC_STORE) &&
        meta_decode(bytes, META_BYTES, &m).code == VERDICT_OK && !m.ro_compat)
        take_meta(l, &m);
}

/* In pages, which are as large as the file says, or as LMDB would make them here; page
 * 0: from each byte on. */
static int look_in(int fd, uint8_t *buffer, size_t n_bytes, size_t page,
                   struct metas_found *l)
{
    size_t some = page ? page : META_BYTES, step = page ? page : 1, got = n_bytes;
    int rc = 0;
    for (uint64_t at = 0; !rc && got == n_bytes; at += got - some + step) {
        rc = io_read(fd, buffer, n_bytes, at, &got);
        for (size_t i = 0; !rc && i + some <= got; i += step)
            if (page)
                look_at_page(l, buffer + i, page, (at + i) / page);
            else
                look_at_bytes(l, buffer + i);
    }
    return rc;
}

static bool meta_of_file(struct repair *r, const struct repair_file *f, struct meta *m)
{
    struct identity identity, *id = &identity;
    if (f->temporary || f->dead || repair_identify(r->filters.fd, f->name, id) != 0 ||
        all_zero(id->store_uuid, UUID_BYTES))
        return false;
    struct tamis_growth growth = {0};
    growth_complete(&growth);
    *m = (struct meta){
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .hash_id = id->hash_id,
        .hash_seed = id->hash_seed,
        .target_error = growth.error,
        .growth_factor = growth.factor,
        .tightening_ratio = growth.tightening,
        .first_capacity = growth.first_capacity,
        .created = id->created,
    };
    memcpy(m->store_uuid, id->store_uuid, UUID_BYTES);
    return true;
}

/* The first 32 bytes are the UUID in hex. */
struct uuid_text {
    char hex[FILTER_NAME_BYTES];
};

static struct uuid_text uuid_text(const uint8_t uuid[UUID_BYTES])
{
    struct uuid_text text;
    filter_file_name(uuid, text.hex);
    return text;
}

int repair_check_uuid(struct repair *r)
{
    if (!r->opt.store_uuid ||
        memcmp(r->meta.store_uuid, r->opt.store_uuid, UUID_BYTES) == 0)
        return 0;
    return diag_fail(r->diag, TAMIS_ERR_MISMATCH, r->path,
                     "the catalog is of store %.32s, and not of %.32s",
                     uuid_text(r->meta.store_uuid).hex,
                     uuid_text(r->opt.store_uuid).hex);
}

/* All filters that name a store must name the same one, or the caller must say which:
 * a filter of another store, under a name that this one has, would lose keys. */
static int ask_filters(struct repair *r)
{
    bool any = false, any_other = false, several = false;
    struct meta other = {0};
    for (size_t i = 0; i < r->n_files; i++) {
        struct meta m;
        if (!meta_of_file(r, &r->files[i], &m))
            continue;
        if (r->opt.store_uuid && memcmp(m.store_uuid, r->opt.store_uuid, UUID_BYTES)) {
            several = several || (any_other && !same_store(&m, &other));
            other = m;
            any_other = true;
            continue;
        }
        if (any && !same_store(&m, &r->meta))
            return diag_fail(r->diag, TAMIS_ERR_MISMATCH, r->path,
                             "the catalog is lost, and the filters are of several "
                             "stores, say %.32s and %.32s",
                             uuid_text(r->meta.store_uuid).hex,
                             uuid_text(m.store_uuid).hex);
        if (!any || m.created < r->meta.created)
            r->meta = m;
        any = true;
    }
    if (any)
        return 0;
    if (any_other)
        return diag_fail(r->diag, TAMIS_ERR_MISMATCH, r->path,
                         "the catalog is lost, and no filter is of store %.32s: these "
                         "are of %.32s%s",
                         uuid_text(r->opt.store_uuid).hex,
                         uuid_text(other.store_uuid).hex, several ? " and others" : "");
    return diag_fail(r->diag, TAMIS_ERR_NO_STORE, r->path,
                     "the catalog is lost, and no filter says which store this was");
}

/* A catalog of another store, put here, must not make strangers of all filters. */
static int check_found(struct repair *r)
{
    size_t n = 0, n_same = 0;
    struct meta m = {0};
    for (size_t i = 0; i < r->n_files; i++) {
        if (!meta_of_file(r, &r->files[i], &m))
            continue;
        n++;
        n_same += (size_t)same_store(&m, &r->meta);
    }
    if (!n || n_same || r->opt.store_uuid)
        return 0;
    return diag_fail(r->diag, TAMIS_ERR_MISMATCH, r->path,
                     "the catalog is damaged, and of another store than the filters: "
                     "these are of %.32s",
                     uuid_text(m.store_uuid).hex);
}

int repair_find_meta(struct repair *r)
{
    struct metas_found left = {0};
    int fd;
    int rc = io_open_beneath(r->store_fd, "catalog.lmdb", O_RDONLY, &fd);
    if (!rc) {
        enum { BUFFER_BYTES = 1 << 16 };
        uint8_t *buffer = malloc(BUFFER_BYTES);
        rc = buffer ? look_in(fd, buffer, BUFFER_BYTES, catalog_page_bytes(fd), &left)
                    : ENOMEM;
        if (!rc && !left.any && !left.newer)
            rc = look_in(fd, buffer, BUFFER_BYTES, 0, &left);
        free(buffer);
        close(fd);
    }
    if (rc && rc != ENOENT)
        return diag_errno(r->diag, rc, r->path, "reading what is left of the catalog");
    if (left.draft)
        return diag_fail(r->diag, TAMIS_ERR_VERSION, r->path,
                         "the catalog is damaged, and of the first draft of the "
                         "format: make the store anew; nothing in it is needed");
    if (left.newer)
        return diag_fail(r->diag, TAMIS_ERR_VERSION, r->path,
                         "the catalog is damaged, and has a feature that this tamis "
                         "does not know: repair it with the version that wrote it");
    bool found = left.any && !left.differ &&
                 (!r->opt.store_uuid ||
                  memcmp(left.meta.store_uuid, r->opt.store_uuid, UUID_BYTES) == 0);
    r->meta = found ? left.meta : (struct meta){0};
    rc = found ? check_found(r) : ask_filters(r);
    r->meta.complete = 0;
    r->meta.compat = r->meta.ro_compat = r->meta.incompat = 0;
    return rc;
}

/* ---- one file ---- */

/* claim_lists() finds out later whose it is. */
static void note_list(struct repair *r, struct repair_file *f,
                      const struct judgement *j)
{
    const struct repair_segment who = {.name = identity_name(&j->h.identity)};
    f->is_list = true;
    f->aside = j->state == FILE_BAD;
    if (f->aside) {
        repair_tell(r, TAMIS_REPAIR_QUARANTINED, &who, f->name, "a list: %s", j->what);
        return;
    }
    f->hash_bits = j->h.commit.stages[LIST_PAGES].hash_bits;
    f->digest = commit_table_digest(&j->h.commit);
}

static int judge_file(struct repair *r, size_t i, struct judgement *j)
{
    struct repair_file *f = &r->files[i];
    if (f->temporary) {
        f->unlink = true;
        repair_tell(r, TAMIS_REPAIR_SWEPT, NULL, f->name, "was never finished");
        return 0;
    }
    if (f->dead)
        return 0; /* see settle_tombstones() */
    int rc = repair_judge(r, NULL, NULL, f->name, j);
    if (rc)
        return rc;
    if (j->state == FILE_GOOD && j->h.identity.kind == KIND_PACK)
        return claim_shared(r, i, j);
    const struct identity *id = &j->h.identity;
    if (id->kind == KIND_LIST && (j->state == FILE_GOOD || j->state == FILE_BAD)) {
        note_list(r, f, j);
        return 0;
    }
    bool nameless = !j->has_identity || !id->name_bytes;
    const struct repair_segment who = {.name = identity_name(id)},
                                *segment = j->has_identity ? &who : NULL;
    if (j->state == FILE_STRANGE) {
        repair_tell_stray(r, f->name);
        return 0;
    }
    if (j->state == FILE_MISSING) {
        repair_tell(r, TAMIS_REPAIR_NOTED, NULL, f->name, "%s", j->what);
        return 0;
    }
    /* It may be its segment's last file: a catalog without it would lack a segment. */
    if (j->state == FILE_UNREAD && j->code != TAMIS_ERR_VERSION)
        return j->code > 0 ? diag_errno(r->diag, j->code, f->name,
                                        "reading a filter, to list it")
                           : diag_fail(r->diag, j->code, f->name, "%s", j->what);
    if (j->state == FILE_UNREAD) {
        /* Without a record the next edit would sweep it: out of its way. */
        repair_set_aside(r, f, segment, j->what);
    } else if (j->rotten && !nameless && (f->rotten = strdup(j->what)) != NULL) {
        ; /* see settle_rotten() */
    } else if (j->state == FILE_BAD || nameless) {
        repair_set_aside(r, f, segment,
                         j->state == FILE_BAD ? j->what : "of no segment: attach it");
    } else if (j->what[0] && j->h.commit.state == STATE_OPEN) {
        repair_tell(r, TAMIS_REPAIR_NOTED, segment, f->name, "%s", j->what);
    }
    /* A foreign store's names are not ours; any other's segment is listed. */
    if (nameless || !repair_is_ours(r, id))
        return 0;
    struct record record = {.state = RECORD_NO_FILTER, .created = id->created};
    if (j->state == FILE_GOOD || f->rotten)
        record = repair_record_of(&j->h);
    rc = claim_name(r, i, id, &record);
    return rc ? diag_errno(r->diag, rc, r->path, "listing segments") : 0;
}

/* Filters whose pages fail: with a list of whole hashes they stay, else they go. */
static void settle_rotten(struct repair *r)
{
    for (size_t i = 0; i < r->n_segments; i++) {
        struct repair_segment *s = &r->segments[i];
        struct repair_file *f = s->own ? &r->files[s->own - 1] : NULL;
        struct record record;
        if (!f || !f->rotten)
            continue;
        repair_record(s, &record);
        if (record_listed(&record)) {
            repair_tell(r, TAMIS_REPAIR_NOTED, s, f->name,
                        "%s: left, for its list may make it anew", f->rotten);
            continue;
        }
        record = (struct record){.state = RECORD_NO_FILTER, .created = record.created};
        claim_set_rotten_aside(r, s, &record);
    }
}

int repair_by_files(struct repair *r)
{
    struct judgement j;
    int rc = 0;
    for (size_t i = 0; i < r->n_files && !rc; i++) {
        rc = repair_stopped(r);
        if (!rc)
            rc = judge_file(r, i, &j);
    }
    if (!rc)
        rc = claim_all_shared(r);
    repair_settle_tombstones(r, false);
    if (!rc)
        rc = claim_lists(r);
    if (!rc)
        settle_rotten(r);
    if (!rc)
        rc = claim_quarantined(r);
    names_clear(&r->claimed);
    return rc;
}
