/* Packs that a process has open (listing.h): one mapping for all that ask a pack, and
 * its index; and records as entries of that. */
#include "lib/filter/filter.h"
#include "lib/store/catalog/listing.h"

static struct open_pack *open_pack_hold(struct open_pack *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void open_pack_release(struct open_pack *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    tamis_filter_close(p->filter);
    free(p->ranks);
    free(atomic_load(&p->sums));
    free(p);
}

static int pack_open_new(const struct catalog *c, const uint8_t uuid[UUID_BYTES],
                         uint64_t digest, struct open_pack **out)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt, .domain = &c->domain, .uuid = uuid, .table_digest = digest};
    int fd;
    filter_file_name(uuid, name);
    filters_dir_path(c->filters, name, path);
    if (!digest) /* it would expect nothing */
        return TAMIS_ERR_MISMATCH;
    struct open_pack *p = calloc(1, sizeof *p);
    if (!p)
        return ENOMEM;
    int rc = io_open_raw(c->filters->fd, name, O_RDONLY, &fd);
    if (!rc) {
        /* Else the header brings megabytes of rows behind it. */
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        rc = filter_open_fd(fd, path, &opt, NULL, &p->filter, NULL);
        close(fd);
    }
    if (!rc) {
        p->bands = pack_bands(p->filter, &p->n_bands);
        rc = p->bands ? 0 : TAMIS_ERR_DAMAGED;
    }
    if (!rc) {
        const struct band *last = &p->bands[p->n_bands - 1];
        p->n_columns = last->first_column + last->n_columns;
        p->ranks = calloc(p->n_columns, sizeof *p->ranks);
        rc = p->ranks ? 0 : ENOMEM;
    }
    if (rc) {
        tamis_filter_close(p->filter);
        free(p);
        return rc;
    }
    atomic_init(&p->refs, 1);
    memcpy(p->uuid, uuid, UUID_BYTES);
    p->digest = digest;
    *out = p;
    return 0;
}

/* Where it is in the list, or the end of that. Under its lock. */
static struct open_pack **opened_at(struct catalog *c, const uint8_t *uuid,
                                    uint64_t digest)
{
    struct open_pack **at = &c->opened;
    while (*at &&
           ((*at)->digest != digest || memcmp((*at)->uuid, uuid, UUID_BYTES) != 0))
        at = &(*at)->next;
    return at;
}

/* Another thread may have been faster; but p, opened `fresh`, takes the place of one
 * that is older. */
static struct open_pack *opened_add(struct catalog *c, struct open_pack *p, bool fresh)
{
    pthread_mutex_lock(&c->opened_lock);
    struct open_pack **at = opened_at(c, p->uuid, p->digest), *other = *at;
    if (other && !fresh) {
        other = p;
        p = open_pack_hold(*at);
    } else {
        *at = other ? other->next : NULL;
        p->next = c->opened;
        c->opened = open_pack_hold(p);
    }
    pthread_mutex_unlock(&c->opened_lock);
    open_pack_release(other);
    return p;
}

int open_pack_get(struct catalog *c, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                  uint32_t n_columns, bool fresh, struct open_pack **out)
{
    struct open_pack *p = NULL;
    *out = NULL;
    pthread_mutex_lock(&c->opened_lock);
    if (!fresh && (p = *opened_at(c, uuid, digest)))
        open_pack_hold(p);
    pthread_mutex_unlock(&c->opened_lock);
    if (!p) {
        int rc = pack_open_new(c, uuid, digest, &p);
        if (rc)
            return rc;
        p = opened_add(c, p, fresh);
    }
    if (p->n_columns != n_columns) {
        open_pack_release(p);
        return TAMIS_ERR_MISMATCH;
    }
    *out = p;
    return 0;
}

void open_pack_forget(struct catalog *c, const uint8_t uuid[UUID_BYTES],
                      uint64_t digest)
{
    pthread_mutex_lock(&c->opened_lock);
    struct open_pack **at = opened_at(c, uuid, digest), *p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&c->opened_lock);
    open_pack_release(p);
}

/* ---- a record as the entry of a column, and back ---- */

void column_of_record(const struct record *r, struct piece name, struct facts *out)
{
    *out = (struct facts){.disk = {
                              .table_digest = le64_of(r->table_digest),
                              .generation = le64_of(r->generation),
                              .watermark = le64_of(r->watermark),
                              .keys = le64_of(r->keys),
                              .target_error = le64_of_f64(r->target_error),
                              .created = le64_of(r->created),
                              .rank = le32_of(r->rank),
                              .has_range = r->has_range,
                          }};
    memcpy(out->disk.uuid, r->uuid, UUID_BYTES);
    column_set_strings(out, name, (struct piece){r->binding, r->binding_bytes},
                       (struct piece){r->first, r->first_bytes},
                       (struct piece){r->last, r->last_bytes});
}

void record_of_column(const struct facts *col, const uint8_t uuid[UUID_BYTES],
                      uint64_t digest, struct record *r)
{
    const struct column_disk *d = &col->disk;
    struct piece binding = column_binding(col);
    struct piece first = column_first(col), last = column_last(col);
    memset(r, 0, sizeof *r);
    r->state = RECORD_SEALED;
    r->kind = KIND_BLOOM;
    r->binding_bytes = (uint8_t)binding.n;
    r->generation = le64_get(d->generation);
    r->table_digest = le64_get(d->table_digest);
    r->keys = le64_get(d->keys);
    r->target_error = le64_get_f64(d->target_error);
    r->watermark = le64_get(d->watermark);
    r->min_stages = 1;
    r->rank = le32_get(d->rank);
    r->created = le64_get(d->created);
    r->has_range = d->has_range;
    r->first_bytes = (uint16_t)first.n;
    r->last_bytes = (uint16_t)last.n;
    r->place.digest = digest;
    r->place.column = le32_get(d->column);
    memcpy(r->place.uuid, uuid, UUID_BYTES);
    memcpy(r->uuid, d->uuid, UUID_BYTES);
    memcpy(r->binding, binding.at, binding.n);
    memcpy(r->first, first.at, first.n);
    memcpy(r->last, last.at, last.n);
}
