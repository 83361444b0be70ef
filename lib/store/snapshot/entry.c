/* Entries: one segment as the catalog describes it, with its filter once somebody has
 * asked for it. Snapshots share an entry for as long as the record stays the same, byte
 * for byte; when it changes (a growth, a seal, another file) the filter is opened anew
 * and checked against the new record, so that an open mapping never outlives what it
 * was checked for. */
#include "lib/store/snapshot/snapshot.h"

struct entry *entry_new(struct page_counts *pages, struct piece name,
                        struct piece value)
{
    struct record r;
    struct entry *e = malloc(sizeof *e + name.n + value.n);
    if (!e)
        return NULL;
    *e = (struct entry){
        .pages = pages,
        .name_bytes = (uint16_t)name.n, /* LMDB's keys have 511 at most */
        .value_bytes = (uint16_t)value.n,
    };
    atomic_init(&e->refs, 1);
    memcpy(e->bytes, name.at, name.n);
    memcpy(e->bytes + name.n, value.at, value.n);

    /* The copy: what is checked is what probes will read. */
    struct verdict v =
        record_decode_head(e->bytes + name.n, value.n, e->bytes, name.n, &r);
    if (v.code != VERDICT_OK) {
        /* Never vanishes: its segment may hold any key. */
        e->refusal = verdict_error(v.code);
        e->rank = UINT32_MAX;
        return e;
    }
    e->state = r.state;
    e->has_range = r.has_range;
    e->rank = r.rank;
    e->watermark = r.watermark;
    e->elsewhere = record_packed(&r);
    return e;
}

/* How many filters are mapped, over all snapshots of the process. */
static atomic_size_t n_mapped;

void entry_leave_place(void)
{
    atomic_fetch_sub(&n_mapped, 1);
}

void entry_close(struct tamis_filter *f)
{
    bool mapped = !filter_is_unmapped(f);
    filter_close(f);
    if (mapped)
        entry_leave_place();
}

struct entry *entry_hold(struct entry *e)
{
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void entry_release(struct entry *e)
{
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct tamis_filter *f = atomic_load(&e->filter);
    if (f && !e->borrowed)
        entry_close(f);
    account_release(atomic_load(&e->account));
    free(e);
}

struct account *entry_account(struct entry *e)
{
    struct account *there = atomic_load_explicit(&e->account, memory_order_acquire);
    if (there || !e->pages)
        return there;
    struct account *mine = account_new(e->pages);
    if (!mine || atomic_compare_exchange_strong(&e->account, &there, mine))
        return mine;
    account_release(mine); /* another thread was first */
    return there;
}

bool entry_is(const struct entry *e, struct piece value)
{
    return e->value_bytes == value.n &&
           memcmp(e->bytes + e->name_bytes, value.at, value.n) == 0;
}

/* Only when many others were closed: all that are read are opened anew then. */
bool entry_may_be_mapped(const struct entry *e)
{
    const struct tamis_filter *f = atomic_load(&e->filter);
    size_t max = f && filter_is_unmapped(f) ? entry_max_mapped() : 0;
    return atomic_load(&n_mapped) < max - max / 8;
}

const char *record_mismatch(const struct record *r, const struct header *h)
{
    const struct commit *c = &h->commit;
    struct bounds known = record_bounds(r);
    if (r->state == RECORD_OF_LIST && h->identity.kind != KIND_LIST)
        return "no list of hashes";
    if (r->state == RECORD_OF_PACK && h->identity.kind != KIND_PACK)
        return "a file of another kind, which is not shared";
    if (r->state < RECORD_OF_LIST && !kind_is_single(h->identity.kind))
        return "a file of another kind, which is no segment's filter";
    if (commit_is_older(c, &known))
        return "an older copy: the catalog has seen this filter further on";
    if (r->state == RECORD_GROWING)
        return NULL;
    if (c->state != STATE_SEALED)
        return "open, but the catalog has seen it sealed";
    return commit_table_digest(c) == r->table_digest
               ? NULL
               : "another version than the catalog has sealed";
}

/* ---- opening ---- */

/* The kernel limits a process's mappings, and the engine, its threads and malloc() need
 * some. Filters of snapshots leave them an eighth. */
static size_t read_max_mapped(void)
{
    char text[32] = "";
    size_t got = 0;
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        io_read(fd, text, sizeof text - 1, 0, &got);
        close(fd);
    }
    size_t allowed = (size_t)strtoull(text, NULL, 10);
    allowed = allowed ? allowed : 65530;
    return allowed - allowed / 8;
}

size_t entry_max_mapped(void)
{
    /* Not pthread_once(): no probe waits for another thread. Some may read it twice. */
    static atomic_size_t max_mapped;
    if (!atomic_load_explicit(&max_mapped, memory_order_relaxed))
        atomic_store_explicit(&max_mapped, read_max_mapped(), memory_order_relaxed);
    return atomic_load_explicit(&max_mapped, memory_order_relaxed);
}

bool entry_take_place(void)
{
    if (atomic_fetch_add(&n_mapped, 1) < entry_max_mapped())
        return true;
    entry_leave_place();
    return false;
}

static int open_file(const struct tamis_snapshot *s, struct entry *e, bool mapped,
                     struct tamis_filter **out, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    const struct filters_dir *dir = s->dir;
    const struct record_disk *r = entry_record(e);
    struct tamis_filter_info info;
    /* An attached file may know of no store and no name: its UUID, unique, and the
     * record's binding to it say more. */
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &s->domain,
        .uuid = r->uuid,
        .table_digest = e->state == RECORD_SEALED ? le64_get(r->table_digest) : 0,
    };
    struct segment_file as = {
        .known = {.sequence = le64_get(r->min_sequence),
                  .generation = le64_get(r->generation),
                  .watermark = le64_get(r->watermark),
                  .n_stages = le32_get(r->min_stages)},
        .unmapped = mapped ? NULL : name,
        .at = dir->fd,
    };
    int fd;
    struct account *account = entry_account(e);
    filter_file_name(r->uuid, name);
    filters_dir_path(dir, name, path);
    if (!account)
        return diag_errno(diag, ENOMEM, path, "opening the filter");
    int rc = io_open_raw(dir->fd, name, O_RDONLY, &fd); /* the header's reader asks */
    if (rc)
        return diag_open(diag, rc, path, "opening the filter");
    rc = filter_open_fd(fd, path, &opt, &as, out, diag);
    close(fd);
    if (rc)
        return rc;
    filter_count_pages(*out, &account->pages);
    rc = filter_name_in(*out, dir->named->at, dir->named->path, name);
    if (rc)
        diag_errno(diag, rc, path, "opening the filter");
    /* A table digest of 0 is an expectation here, and "expect nothing" for opening. */
    else if (e->state == RECORD_SEALED && !opt.table_digest &&
             (tamis_filter_info(*out, &info, NULL) != 0 || !info.sealed ||
              info.table_digest != 0))
        rc = diag_fail(diag, TAMIS_ERR_MISMATCH, path,
                       "another version than the catalog has sealed");
    if (rc) {
        tamis_filter_close(*out);
        *out = NULL;
    }
    return rc;
}

static int check_state(const struct entry *e, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    if (e->state && e->state != RECORD_NO_FILTER && !e->elsewhere)
        return 0;
    name_text(text, e->bytes, e->name_bytes);
    if (e->elsewhere)
        return diag_fail(diag, ENOENT, NULL, "segment '%s' has no file of its own",
                         text);
    if (e->state == RECORD_NO_FILTER)
        return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, NULL,
                         "segment '%s' is registered without a filter", text);
    return diag_fail(diag, e->refusal, NULL, "the catalog's record of segment '%s': %s",
                     text, tamis_strerror(e->refusal));
}

int entry_open(const struct tamis_snapshot *s, struct entry *e,
               struct tamis_filter **out, struct tamis_diag *diag)
{
    /* Growing ones are few, and have to be mapped. */
    bool sealed = e->state == RECORD_SEALED, place = entry_take_place();
    int rc = ENOMEM;
    if (place || !sealed)
        rc = open_file(s, e, true, out, diag);
    if (rc == ENOMEM && sealed) {
        diag_clear(diag);
        rc = open_file(s, e, false, out, diag);
    }
    bool mapped = !rc && !filter_is_unmapped(*out);
    if (!rc)
        filter_keep(*out);
    if (place && !mapped)
        entry_leave_place();
    if (!place && mapped)
        atomic_fetch_add(&n_mapped, 1);
    return rc;
}

int entry_filter(const struct tamis_snapshot *s, struct entry *e,
                 struct tamis_filter **out, struct tamis_diag *diag)
{
    *out = atomic_load_explicit(&e->filter, memory_order_acquire);
    if (*out)
        return 0;
    int rc = check_state(e, diag);
    if (rc)
        return rc;
    struct tamis_filter *mine;
    rc = entry_open(s, e, &mine, diag);
    if (rc) {
        if (!io_is_short(rc) && rc != EINTR && rc != EAGAIN)
            atomic_store_explicit(&e->failure, rc, memory_order_relaxed);
        return rc;
    }
    if (!atomic_compare_exchange_strong(&e->filter, out, mine))
        entry_close(mine); /* another thread was first */
    else
        *out = mine;
    return 0;
}

int entry_look(const struct tamis_snapshot *s, struct entry *e,
               struct tamis_filter **out, struct tamis_diag *diag)
{
    int rc = ENOMEM;
    if (atomic_load(&n_mapped) >= ENTRIES_KEPT && !atomic_load(&e->filter) &&
        check_state(e, NULL) == 0)
        rc = open_file(s, e, true, out, diag);
    if (rc != ENOMEM)
        return rc;
    diag_clear(diag);
    return entry_filter(s, e, out, diag);
}

struct tamis_filter *entry_filter_or_reason(const struct tamis_snapshot *s,
                                            struct entry *e, enum tamis_reason *why)
{
    struct tamis_filter *f = atomic_load_explicit(&e->filter, memory_order_acquire);
    if (f)
        return f;
    int rc = atomic_load_explicit(&e->failure, memory_order_relaxed);
    if (!rc) {
        /* A probe is no cancellation point, and keeps errno. */
        int saved = errno, cancel;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        rc = entry_filter(s, e, &f, NULL);
        pthread_setcancelstate(cancel, &cancel);
        errno = saved;
    }
    if (!rc)
        return f;
    *why = reason_of_error(rc);
    return NULL;
}

/* ---- key ranges ---- */

bool outside_keys(const struct tamis_key *key, struct piece first, struct piece last)
{
    struct piece bytes = {key->bytes, key->n_bytes};
    return bytes.at &&
           (name_compare(bytes, first) < 0 || name_compare(bytes, last) > 0);
}

/* Only of a sealed record with a range, which a builder computed of all its keys. */
bool outside_range(const struct entry *e, const struct tamis_key *key)
{
    return e->has_range && e->state == RECORD_SEALED &&
           outside_keys(key, entry_first(e), entry_last(e));
}
