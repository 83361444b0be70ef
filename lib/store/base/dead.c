/* Tombstones: which columns of a pack no record may use any more (SPEC.md §17.5, R18).
 * The file is small. It is read whole, and replaced whole by a rename. */
#include "lib/store/base/base.h"
#include "format/pack.h"
#include "lib/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void dead_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES])
{
    filter_file_name(uuid, name);
    memcpy(name + (size_t)2 * UUID_BYTES, ".dead", sizeof ".dead");
}

static int read_whole(int fd, uint8_t **file, size_t *n_bytes)
{
    uint64_t size;
    int rc = io_size(fd, &size);
    if (rc)
        return rc;
    if (size > DEAD_MAX_BYTES)
        return TAMIS_ERR_DAMAGED;
    *file = malloc((size_t)size + 1);
    if (!*file)
        return ENOMEM;
    rc = io_read(fd, *file, (size_t)size, 0, n_bytes);
    return rc || *n_bytes == size ? rc : TAMIS_ERR_DAMAGED;
}

int dead_load(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest, uint8_t **file,
              uint32_t *n_columns)
{
    char name[FILTER_NAME_BYTES];
    int fd;
    size_t n_bytes = 0;
    *file = NULL;
    *n_columns = 0;
    dead_file_name(uuid, name);
    int rc = io_open_beneath(dir, name, O_RDONLY, &fd);
    if (rc)
        return io_not_regular(rc) ? TAMIS_ERR_DAMAGED : rc;
    rc = read_whole(fd, file, &n_bytes);
    close(fd);
    if (!rc)
        rc = verdict_error(dead_decode(*file, n_bytes, uuid, digest, n_columns).code);
    if (rc) {
        free(*file);
        *file = NULL;
    }
    return rc;
}

/* Gives the bytes the file's name, over the one that has it if `replace`. */
static int write_whole(int dir, const char *name, const uint8_t *file, size_t n_bytes,
                       bool replace)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, rc = io_create_temp(dir, name, temp, &fd);
    if (rc)
        return rc;
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
    return rc;
}

int dead_create(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                uint32_t n_columns)
{
    char name[FILTER_NAME_BYTES];
    size_t n_bytes = dead_bytes(n_columns);
    uint8_t *file = calloc(1, n_bytes);
    if (!file)
        return ENOMEM;
    dead_file_name(uuid, name);
    dead_encode(uuid, digest, n_columns, file);
    int rc = write_whole(dir, name, file, n_bytes, false);
    free(file);
    return rc;
}

/* Padding at the end counts as dead. */
static bool all_dead(const uint8_t *bits, uint32_t n)
{
    for (uint32_t i = 0; i < n / 8; i++)
        if (bits[i] != 0xff)
            return false;
    return n % 8 == 0 || (bits[n / 8] & ((1U << n % 8) - 1)) == (1U << n % 8) - 1;
}

int dead_bury(int dir, const uint8_t uuid[UUID_BYTES], uint64_t digest,
              const uint32_t *columns, size_t n, bool *all)
{
    uint8_t *file;
    uint32_t n_columns;
    bool changed = false;
    *all = false;
    int rc = dead_load(dir, uuid, digest, &file, &n_columns);
    if (rc)
        return rc; /* without it no column counts */
    uint8_t *bits = file + DEAD_HEAD_BYTES;
    for (size_t i = 0; i < n; i++) {
        if (columns[i] >= n_columns || bits[columns[i] / 8] >> columns[i] % 8 & 1)
            continue;
        bits[columns[i] / 8] |= (uint8_t)(1U << columns[i] % 8);
        changed = true;
    }
    *all = all_dead(bits, n_columns);
    if (changed) {
        char name[FILTER_NAME_BYTES];
        dead_file_name(uuid, name);
        dead_encode(uuid, digest, n_columns, file);
        rc = write_whole(dir, name, file, dead_bytes(n_columns), true);
        if (!rc)
            rc = io_sync_dir(dir);
    }
    free(file);
    return rc;
}
