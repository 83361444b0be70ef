/* Packs that a process has open (listing.h): one mapping for all that ask a pack, and
 * its index. */
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/store/catalog/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct open_pack *open_pack_hold(struct open_pack *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void open_pack_release(struct open_pack *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    tamis_filter_close(p->filter);
    free(atomic_load(&p->sums));
    free(p);
}

static int pack_open_file(const struct catalog *c, const uint8_t uuid[UUID_BYTES],
                          uint64_t digest, struct tamis_filter **out)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt, .domain = &c->domain, .uuid = uuid, .table_digest = digest};
    int fd;
    filter_file_name(uuid, name);
    filters_dir_path(c->filters, name, path);
    if (!digest) /* it would expect nothing */
        return TAMIS_ERR_MISMATCH;
    int rc = io_open_raw(c->filters->fd, name, O_RDONLY, &fd);
    if (rc)
        return rc;
    /* Else the header brings megabytes of rows behind it. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    rc = filter_open_fd(fd, path, &opt, NULL, out, NULL);
    close(fd);
    return rc;
}

static int pack_open_new(const struct catalog *c, const uint8_t uuid[UUID_BYTES],
                         uint64_t digest, struct open_pack **out)
{
    struct open_pack *p = calloc(1, sizeof *p);
    if (!p)
        return ENOMEM;
    int rc = pack_open_file(c, uuid, digest, &p->filter);
    if (!rc) {
        p->bands = pack_bands(p->filter, &p->n_bands);
        rc = p->bands ? 0 : TAMIS_ERR_DAMAGED;
    }
    if (rc) {
        tamis_filter_close(p->filter);
        free(p);
        return rc;
    }
    atomic_init(&p->refs, 1);
    p->n_columns =
        p->bands[p->n_bands - 1].first_column + p->bands[p->n_bands - 1].n_columns;
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

static struct open_pack *opened_find(struct catalog *c, const uint8_t *uuid,
                                     uint64_t digest)
{
    pthread_mutex_lock(&c->opened_lock);
    struct open_pack *p = *opened_at(c, uuid, digest);
    if (p)
        open_pack_hold(p);
    pthread_mutex_unlock(&c->opened_lock);
    return p;
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
    struct open_pack *p = fresh ? NULL : opened_find(c, uuid, digest);
    bool found = p != NULL;
    int rc = found ? 0 : pack_open_new(c, uuid, digest, &p);
    *out = NULL;
    if (!rc && !found)
        p = opened_add(c, p, fresh);
    if (!rc && p->n_columns != n_columns) {
        open_pack_release(p);
        rc = TAMIS_ERR_MISMATCH;
    }
    if (!rc)
        *out = p;
    return rc;
}
