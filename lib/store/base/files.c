/* The directory of filters, its files and the names in it. A file's name is its UUID in
 * hex, never the segment's name: names recur, UUIDs do not. */
#include "lib/store/base/base.h"

#include <dirent.h>
#include <sys/file.h>
#include <time.h>

int filters_dir_open(int store_fd, const char *store_path, int at, const char *named,
                     struct filters_dir **out)
{
    size_t n = strlen(store_path);
    struct filters_dir *d = malloc(sizeof *d + n + sizeof "/filters");
    if (!d)
        return ENOMEM;
    memcpy(d->path, store_path, n);
    memcpy(d->path + n, "/filters", sizeof "/filters");
    atomic_init(&d->refs, 1);
    d->fd =
        openat(store_fd, "filters", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int rc = d->fd < 0 ? errno : named_in(at, NULL, named, &d->named);
    if (!rc) {
        *out = d;
        return 0;
    }
    if (d->fd >= 0)
        close(d->fd);
    free(d);
    return rc;
}

void filters_dir_release(struct filters_dir *d)
{
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    close(d->fd);
    named_free(d->named);
    free(d);
}

void filter_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < UUID_BYTES; i++) {
        name[2 * i] = hex[uuid[i] >> 4];
        name[2 * i + 1] = hex[uuid[i] & 15];
    }
    memcpy(name + (size_t)2 * UUID_BYTES, ".tamis", sizeof ".tamis");
}

void filters_dir_path(const struct filters_dir *d, const char *name,
                      char path[STORE_PATH_BYTES])
{
    if (snprintf(path, STORE_PATH_BYTES, "%s/%s", d->path, name) >= STORE_PATH_BYTES)
        memcpy(path, "...", 3);
}

int filter_file_unlink(int dir, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    filter_file_name(uuid, name);
    return io_calls.unlinkat(dir, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

bool filter_file_is_alien(int dir, const char *name, const uint8_t *store)
{
    uint8_t head[IDENTITY_BYTES];
    struct identity id;
    size_t got = 0;
    int fd;
    if (io_open_beneath(dir, name, O_RDONLY, &fd) != 0)
        return false;
    int rc = io_read(fd, head, sizeof head, 0, &got);
    close(fd);
    if (rc || got < MAGIC_BYTES || magic_is_draft_file(head))
        return !rc && got >= MAGIC_BYTES;
    return store && identity_decode(head, got, &id).code == VERDICT_OK &&
           !all_zero(id.store_uuid, UUID_BYTES) &&
           memcmp(id.store_uuid, store, UUID_BYTES) != 0;
}

/* A random UUID, RFC 9562 version 4: so it is never all zeros, which means "none". */
void uuid_random(uint8_t uuid[UUID_BYTES])
{
    io_calls.random(uuid, UUID_BYTES);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* A lock that could not be turned into another one may be lost. */
int dir_lock(int fd, int how)
{
    while (flock(fd, how) != 0)
        if (errno != EINTR) {
            int rc = errno;
            io_unlock(fd, LOCK_DIRECTORY);
            return rc;
        }
    io_tell_process(fd, LOCK_DIRECTORY);
    return 0;
}

void dir_unlock(int fd)
{
    io_unlock(fd, LOCK_DIRECTORY);
    flock(fd, LOCK_UN);
}

void dir_step_back(int fd)
{
    uint32_t n = 0;
    dir_unlock(fd);
    io_calls.random(&n, sizeof n);
    nanosleep(&(struct timespec){.tv_nsec = n % 10000000}, NULL);
}

int dir_wait(int fd, int how, struct io_wait *wait, const char *path, const char *doing,
             struct tamis_diag *diag)
{
    for (;;) {
        struct tamis_diag whom;
        char text[HOLDER_TEXT_BYTES];
        int rc = dir_lock(fd, how | LOCK_NB);
        if (!rc)
            return 0;
        if (rc != EWOULDBLOCK)
            return diag_errno(diag, rc, path, "locking a directory");
        rc = diag_fail(&whom, TAMIS_ERR_BUSY, path, "%s is %s",
                       io_holder(fd, LOCK_DIRECTORY, text), doing);
        if (io_wait_more(wait, &whom))
            continue;
        if (diag)
            *diag = whom;
        return rc;
    }
}

int dir_open_guarded(int dir, const char *name, struct io_guarded_fd *g)
{
    int rc = io_hold_forks();
    if (rc)
        return rc;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        rc = errno;
    else
        io_guard_fd(g, fd);
    io_let_forks();
    return rc;
}

void dir_close_guarded(struct io_guarded_fd *g)
{
    dir_unlock(g->fd);
    io_unguard_fd(g);
}

int dir_each(int dir, const char *name, dir_each_fn *fn, void *ctx)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int rc = d ? 0 : errno;
    if (!d && fd >= 0)
        close(fd);
    if (!d)
        return rc;
    while (!rc && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = fn(ctx, dirfd(d), e->d_name);
    if (!rc)
        rc = errno;
    closedir(d);
    return rc;
}

static int not_empty(void *ctx, int dir, const char *name)
{
    (void)ctx, (void)dir, (void)name;
    return -1;
}

int dir_is_empty(int dir, const char *name)
{
    int rc = dir_each(dir, name, not_empty, NULL);
    return rc > 0 ? -1 : rc == 0;
}

/* ---- copying ---- */

enum { COPY_BYTES = 256 * 1024 };

/* Holes stay holes. */
static int file_copy_bytes(int from, int to, uint64_t n_bytes, uint8_t *buffer,
                           bool *unreadable)
{
    for (uint64_t at = 0; at < n_bytes;) {
        size_t n = n_bytes - at < COPY_BYTES ? (size_t)(n_bytes - at) : COPY_BYTES;
        size_t got;
        int rc = io_read(from, buffer, n, at, &got);
        if (!rc && got < n)
            rc = TAMIS_ERR_DAMAGED;
        *unreadable = rc != 0;
        if (!rc && !all_zero(buffer, n))
            rc = io_write(to, buffer, n, at);
        if (rc)
            return rc;
        at += n;
    }
    return io_calls.ftruncate(to, (off_t)n_bytes) == 0 ? 0 : errno;
}

int filter_file_copy(int from, int to, uint64_t n_bytes, bool *unreadable)
{
    uint8_t *buffer = malloc(COPY_BYTES);
    *unreadable = false;
    int rc = buffer ? file_copy_bytes(from, to, n_bytes, buffer, unreadable) : ENOMEM;
    free(buffer);
    return rc;
}

/* ---- tombstones ---- */

void dead_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES])
{
    filter_file_name(uuid, name);
    memcpy(name + (size_t)2 * UUID_BYTES, ".dead", sizeof ".dead");
}

int pack_files_unlink(int dir, const uint8_t uuid[UUID_BYTES])
{
    char name[FILTER_NAME_BYTES];
    int rc = filter_file_unlink(dir, uuid);
    dead_file_name(uuid, name);
    if (io_calls.unlinkat(dir, name, 0) != 0 && errno != ENOENT)
        rc = errno;
    return rc;
}

/* Tombstones: which segments of a file no list may have any more (SPEC.md §17.5, R18).
 * The file is small. It is read whole, and replaced whole by a rename. */
static int read_whole(int dir, const uint8_t uuid[UUID_BYTES], uint8_t **file,
                      size_t *n_bytes)
{
    char name[FILTER_NAME_BYTES];
    uint64_t size;
    int fd;
    *file = NULL;
    dead_file_name(uuid, name);
    int rc = io_open_beneath(dir, name, O_RDONLY, &fd);
    if (rc)
        return io_not_regular(rc) ? TAMIS_ERR_DAMAGED : rc;
    rc = io_size(fd, &size);
    if (!rc && size > DEAD_MAX_BYTES)
        rc = TAMIS_ERR_DAMAGED;
    if (!rc && !(*file = malloc((size_t)size + 1)))
        rc = ENOMEM;
    if (!rc)
        rc = io_read(fd, *file, (size_t)size, 0, n_bytes);
    close(fd);
    return rc || *n_bytes == size ? rc : TAMIS_ERR_DAMAGED;
}

int dead_load(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest, uint8_t **file,
              uint32_t *n_columns)
{
    size_t n_bytes = 0;
    uint32_t n = *n_columns;
    int rc = read_whole(dir, uuid, file, &n_bytes);
    if (!rc)
        rc = verdict_error(dead_decode(*file, n_bytes, uuid, digest, n_columns).code);
    if (!rc && n && n != *n_columns)
        rc = TAMIS_ERR_DAMAGED;
    if (rc) {
        free(*file);
        *file = NULL;
    }
    return rc;
}

bool dead_is(int dir, const uint8_t uuid[UUID_BYTES], const uint8_t *head,
             const uint8_t *bits, const uint8_t *checksum, uint32_t n_columns)
{
    uint8_t *now;
    size_t n_bytes;
    int rc = read_whole(dir, uuid, &now, &n_bytes);
    bool is =
        !rc && n_bytes == dead_bytes(n_columns) &&
        memcmp(now, head, DEAD_HEAD_BYTES) == 0 &&
        memcmp(now + DEAD_HEAD_BYTES, bits, ((size_t)n_columns + 7) / 8) == 0 &&
        memcmp(now + n_bytes - sizeof(struct le64), checksum, sizeof(struct le64)) == 0;
    free(now);
    return is;
}

int dead_create(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                uint32_t n_columns, const uint8_t *bits, bool replace)
{
    char name[FILTER_NAME_BYTES], temp[IO_TEMP_NAME_BYTES];
    size_t n_bytes = dead_bytes(n_columns);
    uint8_t *file = calloc(1, n_bytes);
    int fd = -1, rc = file ? 0 : ENOMEM;
    dead_file_name(uuid, name);
    if (!rc)
        rc = io_create_temp(dir, name, temp, &fd);
    if (!rc) {
        memcpy(file + DEAD_HEAD_BYTES, bits, ((size_t)n_columns + 7) / 8);
        dead_encode(uuid, digest, n_columns, file);
        io_adopt(dir, "..", fd);
        rc = io_write(fd, file, n_bytes, 0);
        if (!rc && io_calls.fsync(fd) != 0)
            rc = errno;
        if (!rc)
            rc = replace ? io_replace(dir, temp, name) : io_rename(dir, temp, name);
        if (rc)
            io_discard(dir, temp, fd);
        else
            close(fd);
    }
    free(file);
    return rc;
}

int dead_bury(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
              const uint8_t *bits, uint32_t n_columns)
{
    uint8_t *file, any = 0;
    uint32_t n = n_columns;
    int rc = dead_load(dir, uuid, digest, &file, &n);
    if (rc)
        return rc; /* without it nothing counts */
    for (size_t i = 0; i < ((size_t)n + 7) / 8; i++) {
        uint8_t *to = &file[DEAD_HEAD_BYTES + i];
        any |= bits[i] & (uint8_t) ~*to;
        *to |= bits[i];
    }
    if (any)
        rc = dead_create(dir, uuid, digest, n, file + DEAD_HEAD_BYTES, true);
    free(file);
    return rc;
}

/* ---- names ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The digits at the start of a name. */
static bool uuid_parse(const char *name, uint8_t uuid[UUID_BYTES])
{
    for (size_t i = 0; i < UUID_BYTES; i++) {
        int high = hex_digit(name[2 * i]);
        int low = high < 0 ? -1 : hex_digit(name[2 * i + 1]);
        if (low < 0)
            return false;
        uuid[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool filter_name_parse(const char *name, uint8_t uuid[UUID_BYTES], bool *dead,
                       const char **rest)
{
    if (!uuid_parse(name, uuid))
        return false;
    const char *at = name + (size_t)2 * UUID_BYTES;
    *dead = strncmp(at, ".dead", strlen(".dead")) == 0;
    *rest = at + strlen(*dead ? ".dead" : ".tamis");
    return *dead || strncmp(at, ".tamis", strlen(".tamis")) == 0;
}

/* ".<8 hex>.tmp", as io_create_temp() makes them */
bool filter_rest_temporary(const char *rest)
{
    if (*rest++ != '.')
        return false;
    for (int i = 0; i < 8; i++)
        if (hex_digit(*rest++) < 0)
            return false;
    return strcmp(rest, ".tmp") == 0;
}

void *room_for(void *array, size_t n, size_t *max, size_t element_bytes)
{
    size_t more = *max ? *max : 16;
    while (more < n)
        more *= 2;
    if (more == *max)
        return array;
    void *longer = realloc(array, more * element_bytes);
    if (longer)
        *max = more;
    return longer;
}

char *plain_path(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return strndup(path, n);
}

struct record record_of_commit(const struct commit *c, double target_error,
                               uint64_t created, uint32_t rank)
{
    struct record r = {
        .state = c->state == STATE_SEALED ? RECORD_SEALED : RECORD_GROWING,
        .kind = c->stages[0].layout == LAYOUT_RIBBON ? KIND_RIBBON : KIND_BLOOM,
        .binding_bytes = c->binding_bytes,
        .generation = c->generation,
        .file_bytes = c->committed_bytes,
        .keys = c->keys,
        .target_error = target_error,
        .watermark = c->watermark,
        .min_sequence = c->sequence,
        .min_stages = c->n_stages,
        .rank = rank,
        .created = created,
    };
    if (r.state == RECORD_SEALED)
        r.table_digest = commit_table_digest(c);
    memcpy(r.uuid, c->uuid, UUID_BYTES);
    memcpy(r.binding, c->binding, c->binding_bytes);
    return r;
}
