/* Tombstones: which segments of a file no list may have any more (SPEC.md §17.5, R18).
 * The file is small. It is read whole, and replaced whole by a rename. */
#include "lib/store/base/base.h"

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

bool dead_is(int dir, const uint8_t uuid[UUID_BYTES], const uint8_t *file,
             uint32_t n_columns)
{
    uint8_t *now;
    size_t n_bytes;
    int rc = read_whole(dir, uuid, &now, &n_bytes);
    bool is =
        !rc && n_bytes == dead_bytes(n_columns) && memcmp(now, file, n_bytes) == 0;
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
        if (bits)
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
